package judge

import (
	"cmp"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// seen is how long a decision may take from what it read to what it wrote.
const seen = 5 * time.Second

// reasons is the part of I1 that doubts what the ledger gives as a reason: a due time is skipped for
// a task of the same job that had not ended, for a lost attempt after one was lost, for a
// suspension that a client asked for, or because its own task was cancelled; and one that came too
// late for the policy "none" does not run.
func (t *trial) reasons() {
	ended := map[string]time.Time{}
	lost := map[string]bool{}
	for _, c := range t.h.Audit {
		if c.Table == "done" && c.Before == nil && c.After != nil {
			ended[c.After.ID] = dbTime(c.At)
		}
	}
	for _, l := range t.losses() {
		lost[l.job] = true
	}
	suspended := map[string]bool{}
	for _, a := range t.h.Asks {
		if a.What == "suspend" && a.Answer != "refused" {
			suspended[a.Target] = true
		}
	}
	for _, r := range t.h.Final.Triggers {
		job, known := t.jobs[r.Job]
		if !known || len(t.h.Audit) == 0 {
			continue
		}
		decided := dbTime(r.DecidedAt)
		late := decided.Sub(dbTime(r.At))
		switch {
		case r.Outcome == "ran" && r.Seq == 0 && job.CatchUp == "none" && job.Grace > 0 && late > job.Grace+clockError:
			t.violate(Accounted, subject(r), decided, "ran, decided %v after it was due, with catch-up none and a grace of %v", ms(late), job.Grace)
		case r.Outcome == "skipped":
			if why := t.skipped(r, job, ended, lost[r.Job], suspended[r.Job]); why != "" {
				t.violate(Accounted, subject(r), decided, "skipped with reason %q: %s", r.Reason, why)
			}
		}
	}
}

// skipped says what is wrong with the reason of a skipped row.
func (t *trial) skipped(r history.Row, job history.Job, ended map[string]time.Time, lost, suspended bool) string {
	task, slot := strings.CutSuffix(strings.TrimPrefix(r.Reason, "task "), " has the slot")
	end, over := ended[task]
	owner, there := t.tasks[task]
	decided := dbTime(r.DecidedAt)
	switch {
	case r.Reason == "cancelled":
		if r.TaskID == "" {
			return "it had no task"
		}
	case r.Reason == "suspended":
		if !suspended {
			return "nobody asked for it"
		}
	case job.Concurrency == "allow":
		return "nothing excludes it"
	case strings.HasPrefix(r.Reason, "a lost attempt may run"):
		if !lost {
			return "none was lost"
		}
	case !slot:
		return "that is none"
	case !there || owner != r.Job:
		return "it has no such task"
	case over && !t.steps() && end.Before(decided.Add(-seen-t.run.Slack)):
		return "it ended " + cmp.Or(ms(decided.Sub(end)), seen).String() + " before"
	}
	return ""
}
