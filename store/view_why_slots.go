package store

import (
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// whySlots reads what has the slots of a task's job, and how many wait before it. A job has as many tasks as it has slots, and those of its queue.
//
// Index: tasks_job; primary key of jobs.
func (t *tx) whySlots(row *openTask) (*ledger.SlotFacts, error) {
	is := &ledger.SlotFacts{}
	all, err := t.openTasks(taskFacts, "{index}{tasks}_job{end} WHERE job>'' AND job=? ORDER BY id LIMIT ?", row.Job, ledger.WhyMost+1)
	if err != nil {
		return nil, err
	}
	is.More = len(all) > ledger.WhyMost
	for i := range all {
		switch other := &all[i]; {
		case other.row != rowQueued:
			if is.N++; is.N <= ledger.WhyTasks {
				is.Open = append(is.Open, other.Task)
			}
		case ledger.InDueOrder(other.Task, row.Task) < 0:
			is.Before++
		}
	}
	return is, each(t.rows("SELECT name, busy_until FROM {jobs} WHERE name=?", row.Job), func(m *jobModel) {
		if at := fromMicros(m.BusyUntil); !at.IsZero() {
			is.BusyUntil = at
		}
	})
}
