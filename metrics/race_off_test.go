//go:build !race

package metrics

import "time"

// limit is for what TestLargeScrape measures.
const limit = 50 * time.Millisecond
