package work

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// unskip is forget for a test, which does not hold f.mu.
func (f *feeder) unskip() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
}

// Each name that a claim leaves out is an argument of its statement, of which a database takes so many: a
// replica that can run none of a hundred thousand jobs does not name them all. It stops claiming, too, when
// it learns nothing more.
func TestAClaimLeavesOutSoManyNames(t *testing.T) {
	f := replicaOn(t, &memstore.Store{Database: memstore.New()}, replicatest.Blocked{}).work.feeder("p")
	learned := true
	for n := 0; n < 3*skipMost; n += 500 {
		var foreign []jobs.Task
		for i := range 500 {
			foreign = append(foreign, jobs.Task{Job: fmt.Sprint("job ", n+i)}, jobs.Task{Kind: fmt.Sprint("kind ", n+i)})
		}
		learned = f.skip(f.forgets, foreign)
	}
	if scope, _ := f.scope(); len(scope.SkipJobs) != skipMost || !slices.Equal(scope.Kinds, []string{""}) || learned {
		t.Errorf("%d jobs are left out, and asked for are the kinds %q; it learned more: %t", len(scope.SkipJobs), scope.Kinds, learned)
	}
	f.unskip()
	if !f.skip(f.forgets, []jobs.Task{{Job: "a"}}) {
		t.Error("it learns nothing for ever")
	}
}

// An answer to a claim from before the governing definition was read changes nothing after it.
func TestWhatIsSkippedIsForgottenInOrder(t *testing.T) {
	feeder := newFeeder(nil, nil, &plan.Pool{})
	theirs := []jobs.Task{{Job: "job"}}
	_, before := feeder.scope()
	feeder.unskip()
	if again := feeder.skip(before, theirs); !again {
		t.Error("nobody asks again after an answer from before")
	}
	scope, now := feeder.scope()
	if len(scope.SkipJobs) > 0 {
		t.Errorf("an answer from before keeps %v from being claimed", scope.SkipJobs)
	}
	feeder.backOff(before, true)
	if wake, work := feeder.forPoll(); !wake || !work {
		t.Error("an answer from before keeps the pool from being looked at")
	}
	feeder.skip(now, theirs)
	if scope, _ := feeder.scope(); !slices.Equal(scope.SkipJobs, []string{"job"}) {
		t.Errorf("skipped: %v", scope.SkipJobs)
	}
}
