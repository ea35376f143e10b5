// Package boottime measures elapsed time, including the time that the machine sleeps.
//
// Go's monotonic clock (CLOCK_MONOTONIC) stops during suspend, see golang/go#24595. A lease measured with it
// alone looks fresh after an hour of suspend.
package boottime

import (
	"sync/atomic"
	"time"
)

// Instant is a moment on the clocks of this machine. The zero Instant is not a moment.
type Instant struct {
	mono time.Time     // carries Go's monotonic reading
	boot time.Duration // since boot, suspend included; 0 where the system has no such clock
}

var simulated atomic.Bool

// Simulated makes all later Instants use Go's monotonic clock alone: a simulation has its own time.
func Simulated() { simulated.Store(true) }

// Now returns the present moment.
func Now() Instant {
	if simulated.Load() {
		return Instant{mono: time.Now()}
	}
	return Instant{mono: time.Now(), boot: Clock(false)}
}

// Awake returns the present moment of a clock that stops while the machine sleeps.
func Awake() Instant { return Instant{mono: time.Now()} }

// IsZero reports whether i is the zero Instant.
func (i Instant) IsZero() bool { return i.mono.IsZero() }

// Elapsed is the time since i: the larger one of the monotonic and the boot-time clock. Wall clock steps do not
// change it.
func (i Instant) Elapsed() time.Duration {
	elapsed := time.Since(i.mono)
	if i.boot == 0 {
		return elapsed
	}
	return max(elapsed, Clock(false)-i.boot)
}

// Add returns the moment d after i.
func (i Instant) Add(d time.Duration) Instant {
	later := Instant{mono: i.mono.Add(d)}
	if i.boot != 0 {
		later.boot = i.boot + d
	}
	return later
}

// Until is the time left until i; negative once i has passed.
func (i Instant) Until() time.Duration { return -i.Elapsed() }

// Time is i on the wall clock, with Go's monotonic reading: for timers and for messages.
func (i Instant) Time() time.Time { return i.mono }
