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
				handleSignals(signals, nil, nil, nil, func() { drains++ }, func() { halts++ })
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

// A reload that takes long holds up no other signal, and requests meanwhile are one.
func TestAReloadHoldsUpNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, hangups, loaded := make(chan os.Signal), make(chan os.Signal), make(chan struct{})
		reloads, drains, halts, done := 0, 0, 0, make(chan struct{})
		go func() {
			defer close(done)
			handleSignals(signals, hangups, func() bool { return false }, func() { reloads++; <-loaded }, func() { drains++ }, func() { halts++ })
		}()
		for range 5 {
			hangups <- syscall.SIGHUP
			synctest.Wait()
		}
		signals <- syscall.SIGTERM
		synctest.Wait()
		if reloads != 1 || drains != 1 {
			t.Errorf("while one reload is under way there are %d, and SIGTERM has drained %d times", reloads, drains)
		}
		time.Sleep(time.Minute)
		signals <- syscall.SIGTERM
		close(signals)
		synctest.Wait()
		select {
		case <-done:
			t.Error("it does not wait for the reload")
		default:
		}
		close(loaded)
		<-done
		if reloads != 2 || drains != 1 || halts != 1 {
			t.Errorf("%d reloads, drained %d and halted %d times", reloads, drains, halts)
		}
	})
}

// A closed terminal drains, and reloads nothing.
func TestAClosedTerminalDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, hangups, drains, done := make(chan os.Signal), make(chan os.Signal), 0, make(chan struct{})
		go func() {
			defer close(done)
			handleSignals(signals, hangups, func() bool { return true }, func() { t.Error("reloaded") }, func() { drains++ }, nil)
		}()
		hangups <- syscall.SIGHUP
		close(signals)
		<-done
		if drains != 1 {
			t.Errorf("drained %d times", drains)
		}
	})
}
