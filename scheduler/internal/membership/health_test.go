package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A change is logged once, and the reason again when it is another one, not sooner than after ten seconds.
func TestWhatIsSaidOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &replicatest.Lines{}
		h := &health{log: slog.New(log)}
		one, other := errors.New("one"), errors.New("other")
		for n, step := range []struct {
			after time.Duration
			err   error
			want  string
		}{
			{0, nil, ""},
			{time.Minute, one, "service unavailable; retrying service=lock service error=one"},
			{time.Second, one, ""},
			{time.Second, other, ""},
			{sayEvery - 2*time.Second - 1, one, ""},
			{1, one, ""}, // nothing new
			{0, other, "service still unavailable; retrying service=lock service error=other for=10s"},
			{time.Second, one, ""},
			{time.Minute, one, ""},
			{0, other, "service still unavailable; retrying service=lock service error=other for=1m11s"},
			{time.Second, nil, "service available again service=lock service after=1m12s"},
			{time.Minute, nil, ""},
			{time.Minute, one, "service unavailable; retrying service=lock service error=one"},
			{time.Minute, nil, "service available again service=lock service after=1m0s"},
		} {
			time.Sleep(step.after)
			if step.err == nil {
				h.lockUp()
			} else {
				h.lockDown(step.err)
			}
			if got := strings.Join(log.Take(), "\n"); got != step.want {
				t.Errorf("step %d: said is %q, want %q", n, got, step.want)
			}
			if h.lockIsDown() != (step.err != nil) {
				t.Errorf("step %d: away: %v", n, h.lockIsDown())
			}
		}
		// That no clock is believed is logged as often: at once, and again after ten seconds.
		for n, said := range []bool{true, false, false, true, false} {
			h.disbelieved(one)
			if got := log.Take(); (len(got) == 1) != said {
				t.Errorf("clock, step %d: said is %q", n, got)
			}
			time.Sleep(sayEvery / 3)
			if n == 2 {
				time.Sleep(sayEvery - 3*(sayEvery/3))
			}
		}
	})
}

// Which errors of the store say that it is away. An expired session is handled at once.
func TestWhatAnErrorSaysOfTheStore(t *testing.T) {
	for _, c := range []struct {
		err         error
		away, watch bool
	}{
		{jobs.ErrUnavailable, true, false},
		{context.DeadlineExceeded, true, false},
		{errRefused, true, false},
		{context.Canceled, false, false},
		{ledger.ErrOutdated, false, false},
		{ledger.ErrClock, false, false},
		{ledger.ErrSessionDead, false, true},
	} {
		s := memberOn(t, newStore())
		s.SetLoaded()
		s.StoreFailed(fmt.Errorf("claim: %w", c.err))
		if up, _, _ := s.health.state(); up == c.away || (len(s.lookNow) > 0) != c.watch {
			t.Errorf("%v: the store is there: %v, and is looked at: %v", c.err, up, len(s.lookNow) > 0)
		}
	}
}

// Every decision meets a clock that is not believed, some fifty a second; the log says so at most each sayEvery.
func TestADisbelievedClockFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := memberOn(t, newStore())
		s.health.log = slog.New(slog.NewTextHandler(&log, nil))
		for range 25 * 50 {
			s.StoreFailed(fmt.Errorf("decide: %w", ledger.ErrClock))
			time.Sleep(20 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "the database's clock is not trusted; nothing is decided"); n != 3 {
			t.Errorf("in 25 s it was said %d times", n)
		}
	})
}
