package jobs

import (
	"math/rand/v2"
	"slices"
	"time"
)

// NoRetries is the Limit of a pool whose tasks are not retried: zero means the default, which for pools is 10.
const NoRetries = -1

// Attempts is how many attempts there are at most: the first one, and the retries.
func (r Retries) Attempts() int { return max(r.Limit, 0) + 1 }

// hashed is r as it counts in hashes: the order of codes says nothing.
func (r Retries) hashed() Retries {
	r.On = slices.Sorted(slices.Values(r.On))
	return r
}

// jitter is how far a delay may be off, either way, so that tasks that failed together do not come
// back together.
const jitter = 0.2

// Delay is how long the next attempt waits after the n-th attempt failed (n from 1):
// min(Backoff·2ⁿ⁻¹, MaxBackoff) ± 20 %. rnd returns numbers in [0, 1); nil is math/rand's.
func (r Retries) Delay(n int, rnd func() float64) time.Duration {
	if rnd == nil {
		rnd = rand.Float64
	}
	r = r.withDefaults()
	delay := min(r.Backoff, r.MaxBackoff)
	for ; n > 1 && delay <= r.MaxBackoff/2; n-- {
		delay *= 2
	}
	if n > 1 {
		delay = r.MaxBackoff
	}
	return time.Duration(float64(delay) * (1 - jitter + 2*jitter*rnd()))
}
