//go:build !race

package metrics

import "time"

// limit is the time limit of TestLargeScrape.
const limit = 50 * time.Millisecond
