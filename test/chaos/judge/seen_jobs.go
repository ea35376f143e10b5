package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// ofJobs counts what there is to judge of jobs whose runs wait, are replaced, start later, or are left out, in a run that is long enough for all of it.
func (t *trial) ofJobs() (all []figure) {
	if t.run.Format < 5 || t.run.Quiesced.Sub(t.run.Began) < often || !t.unhurried() {
		return nil
	}
	codes, later := map[string]int{}, 0
	for _, r := range t.h.Final.Triggers {
		codes[r.Code]++
		job := t.jobs[r.Job]
		if start, runs := t.startOf(job, dbTime(r.At)); runs && start.After(dbTime(r.At)) && r.Outcome == "ran" {
			later++
		}
	}
	waited := 0
	for _, c := range t.h.Audit {
		if c.Table == "tasks" && c.Before != nil && c.After != nil && c.Before.State == queued && c.After.State != queued {
			waited++
		}
	}
	may := func(what string, have int, does func(j history.Job) bool) {
		for _, j := range t.run.Jobs {
			if does(j) {
				all = append(all, figure{what, have, t.each(often)})
				return
			}
		}
	}
	may("runs that waited for a slot", waited, func(j history.Job) bool { return j.Concurrency == "queue" })
	may("due times that found a full queue", codes[codeFull], func(j history.Job) bool { return j.Concurrency == "queue" })
	may("runs that were replaced", codes[codeReplace], func(j history.Job) bool { return j.Concurrency == "replace" })
	may("rows of calendars", codes[codeCalendar], func(j history.Job) bool { return len(j.Exclude)+len(j.Only) > 0 })
	may("runs that start later than they are due", later, func(j history.Job) bool { return j.Jitter > time.Millisecond })
	return all
}
