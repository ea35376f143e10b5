package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var ownRetriesCases = []Case{
	{"Own/Attempts", ownAttempts},
}

// A task with attempts of its own keeps them, however many its pool has by then; the others get the pool's with each claim.
func ownAttempts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	own := s.newTask(jobs.NewTask{MaxAttempts: 7, Timeout: 90 * time.Second, Backoff: 1500 * time.Millisecond})
	pools := s.newTask(jobs.NewTask{})
	want := func(when string, of map[string]int, tasks []jobs.Task) {
		t.Helper()
		for _, task := range tasks {
			if task.MaxAttempts != of[task.ID] || task.ID == own != (task.OwnAttempts == 7 && task.Timeout.String() == "1m30s" && task.Backoff.String() == "1.5s") {
				t.Errorf("%s: %+v, want %d attempts", when, task, of[task.ID])
			}
			row, _, err := s.Store.Task(s.ctx(), task.ID)
			must(t, err)
			if row.MaxAttempts != of[task.ID] || row.Timeout != task.Timeout || row.Backoff != task.Backoff {
				t.Errorf("%s: the row has %+v", when, row)
			}
		}
	}
	tasks := s.claim("work", 10)
	want("claimed", map[string]int{own: 7, pools: 3}, tasks)
	for _, task := range tasks {
		again := result(task, ledger.Again, jobs.StateFailed)
		again.RetryIn, again.Now = time.Microsecond, micro(1)
		s.finish(again)
	}
	d := definitions()
	for i := range d.Pools {
		d.Pools[i].MaxAttempts = 2
	}
	_, err := s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	_, err = s.Store.Ready(s.ctx(), asIs)
	must(t, err)
	tasks = s.claim("work", 10)
	want("claimed again", map[string]int{own: 7, pools: 2}, tasks)
	for _, task := range tasks {
		s.finish(result(task, ledger.Ended, jobs.StateFailed))
		again, err := s.Store.Retry(s.ctx(), task.ID, "", true)
		must(t, err)
		if (task.ID == own) != (again.OwnAttempts == 7 && again.MaxAttempts == 7 && again.Timeout == task.Timeout && again.Backoff == task.Backoff && again.Backoff > 0) {
			t.Errorf("the copy has %+v", again)
		}
	}
}
