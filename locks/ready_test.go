package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// Ready returns when the service grants, not when it answers.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f.count("acquire") != 1 || f.count("release") != 1 {
			t.Error("want one key acquired and released")
		}
		for info, err := range other.Inspect(t.Context(), "") {
			t.Errorf("%+v, %v: want nothing held", info, err)
		}
		service.Restart()
		began := time.Now()
		if err := other.Connect(t.Context()); err != nil { // it answers
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := other.Ready(soon); !errors.Is(err, locks.ErrRecovering) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want ErrRecovering and the end of ctx", err)
		}
		if err := other.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 11*time.Second {
			t.Errorf("ready after %v, want at the end of the ttl of the forgotten session", took)
		}
		take(t, other, "user/a")
		service.Stop()
		wantErr(t, "ready without the service", l.Ready(t.Context()), locks.ErrUnavailable)
	})
}
