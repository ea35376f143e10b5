package store

import (
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// endTasks ends the pending tasks that the decisions end, and asks the owners of the running ones to stop them. No task becomes running meanwhile: a claim locks the
// row of its job.
//
// Index: primary key.
func (w *decision) endTasks(t *tx) error {
	ends := map[string]ledger.Ending{}
	for _, dec := range w.out.Decisions {
		for _, e := range dec.Ends {
			ends[e.Task] = e
		}
	}
	if len(ends) == 0 {
		return nil
	}
	var ids []string
	for id := range ends {
		ids = append(ids, id)
	}
	rows, err := t.openTasks(taskFacts, " WHERE {in name id} ORDER BY id", sqlkit.Keys(sqlkit.Distinct(ids)))
	if err != nil {
		return err
	}
	if len(rows) != len(ends) { // one has ended since it was read
		return sqlkit.ErrMoved
	}
	var running []openTask
	for _, r := range rows {
		if e := ends[r.ID]; r.row == rowRunning {
			running = append(running, r)
		} else {
			w.moves = append(w.moves, withdrawn(r, e.Reason, e.Code))
		}
	}
	if err := t.askOwners(running, func(r openTask) string { return ends[r.ID].Reason }); err != nil {
		return err
	}
	return t.endPendingRows(w.now, w.moves)
}

// grantSlots gives slots to tasks that wait for one. They are claimed from their pool as others are.
func (w *decision) grantSlots(t *tx) error {
	var ids []string
	for _, dec := range w.out.Decisions {
		job, ok := findJob(w.rows, dec.Job)
		if !ok {
			return fmt.Errorf("a decision about job %q, whose row is not locked", dec.Job)
		}
		for _, id := range dec.Starts {
			i := slices.IndexFunc(job.Queued, func(q jobs.Task) bool { return q.ID == id })
			if i < 0 {
				return fmt.Errorf("a slot of job %q for task %s, which waits for none", dec.Job, id)
			}
			w.out.Opened = append(w.out.Opened, job.Queued[i])
			ids = append(ids, id)
		}
	}
	return t.grantSlots(ids)
}
