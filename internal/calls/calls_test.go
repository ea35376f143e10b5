package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwaitStopsWaitingAndJoinDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		why := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		ended := false
		_, err := Await(ctx, &g, func() (int, error) {
			time.Sleep(time.Minute)
			ended = true
			return 1, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) {
			t.Errorf("the call was given up with %v", err)
		}
		if short, cancel := context.WithTimeout(t.Context(), time.Second); g.Join(short) == nil {
			t.Error("joined while the call was under way")
			cancel()
		} else {
			cancel()
		}
		if err := g.Join(t.Context()); err != nil || !ended {
			t.Errorf("joined with %v, ended %v", err, ended)
		}
		if _, err := Await(t.Context(), &g, func() (int, error) { return 1, nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

func TestAwaitReturnsWhatTheCallReturns(t *testing.T) {
	var g Group
	if v, err := Await(t.Context(), &g, func() (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Error(v, err)
	}
}

// What Go has started is joined, and nothing is started afterwards.
func TestGoIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		ended := false
		if !g.Go(func() {
			time.Sleep(time.Minute)
			ended = true
		}) {
			t.Error("it has not started")
		}
		if err := g.Join(t.Context()); err != nil || !ended {
			t.Errorf("joined with %v, ended %v", err, ended)
		}
		if g.Go(func() { t.Error("called") }) {
			t.Error("it has started after the end")
		}
	})
}
