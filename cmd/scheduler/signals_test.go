package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A second signal halts, unless it comes with the first: timeout(1) sends two.
func TestTwoSignals(t *testing.T) {
	for _, c := range []struct {
		after []time.Duration // between one signal and the next
		halts int
	}{
		{nil, 0},
		{[]time.Duration{time.Millisecond}, 0},
		{[]time.Duration{sameSignal}, 1},
		{[]time.Duration{time.Millisecond, time.Second}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			signals, drains, halts := make(chan os.Signal), 0, 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				handleSignals(signals, nil, func() {}, func() { drains++ }, func() { halts++ })
			}()
			signals <- syscall.SIGTERM
			for _, wait := range c.after {
				time.Sleep(wait)
				signals <- syscall.SIGTERM
			}
			close(signals)
			<-done
			if drains != 1 || halts != c.halts {
				t.Errorf("signals %v apart drain %d times and halt %d times", c.after, drains, halts)
			}
		})
	}
}
