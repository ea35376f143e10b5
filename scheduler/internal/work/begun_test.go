package work

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A task that was claimed under a session that is not trusted any more, or under an earlier one, is handed back, however
// long the job grants it: its row may be another replica's by now.
func TestWhatMayBeAnothersIsNotStarted(t *testing.T) {
	for what, c := range map[string]struct {
		session string
		trust   time.Duration
		starts  bool
	}{
		"the session is trusted":         {"session", time.Minute, true},
		"the session is trusted no more": {"session", 0, false},
		"there is another session":       {"another", time.Minute, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := false
				s := executing(t, replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { started = true; return nil }), nil)
				s.members.Clock().Observe(boottime.Now(), time.Now())
				s.assume(&membership.Session{ID: c.session, Trust: boottime.Awake().Add(c.trust)})
				one := claimOf("1")
				one.until = s.members.Clock().Now().Add(time.Hour)
				s.work.register.start(claimOf("1"))
				s.work.execute(t.Context(), one)
				if r := results(s)["1"]; started != c.starts || (r.Verdict == ledger.HandBack) != !c.starts {
					t.Errorf("started: %t, %+v", started, r)
				}
			})
		})
	}
}

// beats is a context within which the session is renewed when something is derived from it.
type beats struct {
	context.Context
	renew func()
}

func (b beats) Done() <-chan struct{} {
	b.renew()
	return b.Context.Done()
}

// A heartbeat that comes while an attempt begins is not too late: the handler is told of it.
func TestAnAttemptIsToldOfABeatBesideItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left, toStart time.Duration
		s := executing(t, replicatest.Function(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
			bound := bound.Of(ctx)
			left, toStart = bound.Left(), bound.StartLeft()
			return nil
		}), nil)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Minute)})
		s.work.register.start(claimOf("1"))
		s.work.execute(beats{t.Context(), func() {
			s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		}}, claimOf("1"))
		if left != time.Hour || toStart != time.Minute {
			t.Errorf("it may be started for %v, and has %v; want %v and %v", toStart, left, time.Minute, time.Hour)
		}
	})
}
