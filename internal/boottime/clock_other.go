//go:build !linux

package boottime

import "time"

// Elsewhere the monotonic clock alone decides.
func sinceBoot() time.Duration { return 0 }
