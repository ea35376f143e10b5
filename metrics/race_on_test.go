//go:build race

package metrics

import "time"

// With the race detector the limit only excludes quadratic time.
const limit = time.Second
