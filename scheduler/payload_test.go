package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A run by hand gets its own payload, for this run alone, if the job's params accept it and its locks have keys with it; what is refused leaves no trace.
func TestARunByHandWithAPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := newGiven()
		s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{
			"j": {Handler: h, Payload: map[string]int{"n": 1}, Params: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"maximum": 5}}}},
			"k": {Handler: h, Params: map[string]any{"type": "object"}},
			"l": {Handler: h, Payload: map[string]string{"tenant": "a"}, Locks: []jobs.Lock{{Key: "tenant-{{.payload.tenant}}"}}},
		}}, Options{ID: "a", JobLocks: weak{}})
		time.Sleep(5 * time.Second)
		for _, wrong := range []struct {
			job  string
			run  jobs.NewRun
			path string
		}{
			{"j", jobs.NewRun{Payload: map[string]int{"n": 6}}, "payload/n"},
			{"j", jobs.NewRun{Payload: []int{1}}, "payload"},
			{"j", jobs.NewRun{Payload: make(chan int)}, "payload"},
			{"k", jobs.NewRun{}, "payload"}, // the job's own, which is none
			{"l", jobs.NewRun{Payload: map[string]string{"tennant": "a"}}, "payload"},
		} {
			_, _, err := s.RunJobWith(t.Context(), wrong.job, wrong.run)
			field, is := errors.AsType[*jobs.FieldError](err)
			if !is || field.Path != wrong.path || !errors.Is(err, jobs.ErrInvalid) {
				t.Errorf("%s with %v: %v", wrong.job, wrong.run.Payload, err)
			}
		}
		if rows := triggersOf(st); len(rows) > 0 {
			t.Errorf("refused runs are in the ledger: %v", rows)
		}
		for _, run := range []struct {
			is   jobs.NewRun
			want string
		}{{jobs.NewRun{Payload: map[string]int{"n": 5}, By: "ann"}, `{"n":5}`}, {jobs.NewRun{By: "ann"}, `{"n":1}`}} {
			_, task, err := s.RunJobWith(t.Context(), "j", run.is)
			if err != nil || string(task.Payload) != run.want || task.By != "ann" {
				t.Fatalf("%v: %+v", err, task)
			}
			if got := h.now(); got.ID != task.ID || string(got.Payload) != run.want {
				t.Errorf("the handler was given %s, want %s", got.Payload, run.want)
			}
			h.finish(nil)
			time.Sleep(time.Second)
		}
	})
}
