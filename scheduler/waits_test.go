package scheduler

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Of due times that are caught up one after the other, each starts as soon as the one before has ended.
func TestADueTimeStartsWhenItsSlotIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		h := &noting{at: map[string][]time.Time{}}
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * *", Handler: h, Payload: json.RawMessage(`"j"`), CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll}}}}
		for _, outage := range []time.Duration{5*time.Minute + 30*time.Second, 0} {
			s, err := newOn(&memstore.Store{Database: db}, nil, set, Options{ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			runFor(t, s, 6*time.Second)
			time.Sleep(outage)
		}
		began := h.begun("j")
		// Once, as the replica begins, its stripes may be read meanwhile, with the row's time to look again: a second later.
		if len(began) != 5 || began[4].Sub(began[0]) > 1500*time.Millisecond {
			t.Errorf("of five missed due times %d began, at %v", len(began), began)
		}
	})
}
