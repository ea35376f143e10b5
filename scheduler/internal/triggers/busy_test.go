package triggers

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A replica that may not start anything any more decides nothing more, and does not forget the jobs that are left.
func TestAnUntrustedSessionDecidesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewContended()
		set := jobs.Set{Jobs: map[string]jobs.Job{}}
		for _, name := range []string{"a", "b", "c"} {
			set.Jobs[name] = jobs.Job{Schedule: "* * * * * *", Handler: replicatest.Blocked{}}
		}
		s, err := newOn(st, nil, set, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		trust := func(d time.Duration) { s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(d)}) }
		trust(time.Hour)
		decisions := 0
		st.Store = undecided{st.Store}
		st.Then = func() { decisions++; trust(-time.Second) }
		s.triggers.decide(t.Context(), []string{"a", "b", "c"})
		if decisions != 1 {
			t.Errorf("%d decisions", decisions)
		}
		left := s.triggers.upcoming.take(s.members.Clock().Now().Add(2*afterFailure), 10, func(string) bool { return true })
		if slices.Sort(left); !slices.Equal(left, []string{"a", "b"}) {
			t.Errorf("it looks again at %q", left)
		}
	})
}

// undecided is a store that decides nothing.
type undecided struct{ ledger.Store }

func (undecided) Decide(context.Context, ledger.Decide) (ledger.Decided, error) {
	return ledger.Decided{}, nil
}
