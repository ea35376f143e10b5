package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// late is a store whose answer comes when the attempt that it is about has ended and the next one has begun.
type late struct {
	ledger.Store
	meanwhile func()
}

func (s late) Extend(_ context.Context, _ string, moves []ledger.Extension) ([]bool, error) {
	s.meanwhile()
	ours := make([]bool, len(moves))
	for i := range ours {
		ours[i] = true
	}
	return ours, nil
}

// An extension that was written for one attempt moves the deadline of no other attempt of the same task.
func TestExtendMovesTheAttemptThatItAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, next := range []bool{false, true} {
			st := &late{Store: &memstore.Store{Database: memstore.New()}, meanwhile: func() {}}
			s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * *", Handler: replicatest.Blocked{}}}}, Options{ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			ses := &membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)}
			s.assume(ses)
			attemptOf := func(token int64, until time.Time) *attempt {
				return &attempt{task: &jobs.Task{ID: "t", Job: "j", Token: token}, session: ses.ID, mayRun: until, bound: bound.New(ses.Trust, 0)}
			}
			now := s.members.Clock().Now()
			was, is := attemptOf(5, now.Add(-time.Second)), attemptOf(6, now.Add(time.Hour))
			s.work.register.run(was)
			want := was
			if next {
				want = is
				st.meanwhile = func() { s.work.register.forget(was); s.work.register.run(is) }
			}
			before := want.until()
			s.work.extend(t.Context())
			if moved := !want.until().Equal(before); moved == next {
				t.Errorf("the attempt with token %d may run until %v, and before %v", want.task.Token, want.until(), before)
			}
		}
	})
}
