//go:build race

package metrics

import "time"

// limit with the race detector, which makes everything slower, only shows that nothing is squared.
const limit = time.Second
