package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Reap implements ledger.Tasks.
func (s *Store) Reap(ctx context.Context, limit int) (reaped []ledger.Reaped, err error) {
	err = s.tx(ctx, "reap", func(t *tx) error {
		reaped = nil
		now := t.now()
		var orphaned []Task
		for _, r := range t.tasks.rows {
			if owner, found := t.sessions.rows[r.Session]; r.State == Running && (!found || owner.Dead) {
				orphaned = append(orphaned, r)
			}
		}
		slices.SortFunc(orphaned, func(a, b Task) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID)) })
		var ends []happening
		for _, r := range orphaned[:min(limit, len(orphaned))] {
			worker, owner := t.sessions.rows[r.Session].Pool != "", "replica"
			if worker {
				owner = "worker"
			}
			if job, ofJob := t.jobs.rows[r.Job]; ofJob && !worker && r.MayRunUntil > job.BusyUntil {
				job.BusyUntil = r.MayRunUntil
				put(t, &t.jobs, job)
			}
			m := died(r, reason.ReplicaDied, fmt.Sprintf("the session of %s %s expired while it had the task", owner, r.Replica))
			killed := 1
			for _, a := range t.attempts.rows {
				if a.TaskID == r.ID && a.State == string(jobs.StateLost) && a.ReasonCode == reason.ReplicaDied {
					killed++
				}
			}
			if m.code == reason.LostLimit && killed >= r.LostLimit {
				m.code, m.reason = reason.Quarantined, fmt.Sprintf("quarantined: %d replicas died while they had it, the last one %s", killed, r.Replica)
			}
			m.chunks, m.lost = true, notArrived
			switch {
			case worker:
			case m.to == toDone:
				m.until = r.MayRunUntil
			case r.MayRunUntil > micros(now):
				m.to, m.due = toWait, r.MayRunUntil
			}
			task, end := t.move(now, m)
			if row, ended := t.done.rows[r.ID]; ended {
				if err := t.countRun(now, row, m.end); err != nil {
					return err
				}
			}
			reaped = append(reaped, ledger.Reaped{Task: task, Replica: r.Replica})
			if end != nil {
				ends = append(ends, *end)
			}
		}
		return t.happened(now, ends)
	})
	if err != nil {
		return nil, err
	}
	return reaped, nil
}
