//go:build !unix

package metrics

import "time"

var loaded = time.Now()

// used stands in for the processor time of this process.
func used() time.Duration { return time.Since(loaded) }
