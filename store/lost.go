package store

import (
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// findLost says which task it is whose lost attempt keeps a job busy. While it does nobody opens another task of the
// job, so it is the latest one that has ended; if that one is not lost, its result has come after all, and which attempt it
// was besides is not known.
//
// Index: done_job, one look for each job and state.
func (w *decision) findLost(t *tx) error {
	var busy []string
	for _, r := range w.rows {
		if r.BusyUntil.After(w.now) {
			busy = append(busy, r.Name)
		}
	}
	if len(busy) == 0 {
		return nil
	}
	var latest []string
	var args []any
	for _, state := range []jobs.State{jobs.StateLost, jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled} {
		latest = append(latest, "SELECT (SELECT m.id FROM {done} m WHERE m.job=j.name AND m.state='"+string(state)+"' ORDER BY m.id DESC LIMIT 1) AS id FROM {jobs} j WHERE j.name IN ("+marks(len(busy))+")")
		args = append(args, texts(busy)...)
	}
	found := map[string]string{}
	return t.query("SELECT d.job, d.id, d.state, d.trigger_at, d.replica, d.finished_at FROM ("+strings.Join(latest, " UNION ALL ")+") l JOIN {done} d ON d.id=l.id",
		args, func(scan func(...any) error) error {
			var job, state string
			var lost ledger.LostTask
			var triggerAt, finishedAt int64
			if err := scan(&job, &lost.ID, &state, &triggerAt, &lost.Replica, &finishedAt); err != nil || lost.ID < found[job] {
				return err
			}
			found[job] = lost.ID
			lost.ScheduledAt, lost.At = fromMicros(triggerAt), fromMicros(finishedAt)
			r, _ := findJob(w.rows, job)
			if r.Lost = nil; state == string(jobs.StateLost) {
				r.Lost = &lost
			}
			return nil
		})
}
