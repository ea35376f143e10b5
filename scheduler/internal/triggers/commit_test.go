package triggers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// owing is a store whose jobs have an hour of due times that are not decided.
type owing struct {
	ledger.Store
	s       *replica
	opened  []int    // by each transaction
	decided []string // jobs
}

func (o *owing) Decide(_ context.Context, d ledger.Decide) (ledger.Decided, error) {
	now := time.Now()
	var states []ledger.JobState
	for _, name := range d.Jobs {
		states = append(states, ledger.JobState{Name: name, Hash: o.s.plan.Jobs[name].Hash, Cursor: now.Add(-time.Hour)})
	}
	decisions := d.Decide(now, states)
	rows := 0
	for _, dec := range decisions {
		rows += len(dec.Triggers)
		o.decided = append(o.decided, dec.Job)
	}
	o.opened = append(o.opened, rows)
	return ledger.Decided{Now: now, Decisions: decisions}, nil
}

// The due times of many jobs after an outage are not decided in one transaction, which would not end in time.
func TestManyDueTimesAreDecidedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, each = 6, 3600
		st := &owing{Store: &memstore.Store{Database: memstore.New()}}
		set, names := jobs.Set{Jobs: map[string]jobs.Job{}}, []string(nil)
		for i := range many {
			name := fmt.Sprint("j", i)
			names = append(names, name)
			set.Jobs[name] = jobs.Job{
				Schedule: "* * * * * *", Handler: replicatest.Blocked{}, Concurrency: jobs.Allow,
				CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll, Limit: 10000},
			}
		}
		s, err := newOn(st, nil, set, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		st.s = s
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
		s.triggers.decide(t.Context(), names)
		slices.Sort(st.decided)
		if !slices.Equal(st.decided, names) {
			t.Errorf("decided are %v", st.decided)
		}
		total := 0
		for _, rows := range st.opened {
			total += rows
			if rows >= decideRows+each {
				t.Errorf("one transaction opens %d due times", rows)
			}
		}
		if total != many*each {
			t.Errorf("%d due times are opened, want %d", total, many*each)
		}
	})
}
