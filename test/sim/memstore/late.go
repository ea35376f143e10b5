package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// LateRuns implements ledger.Notifications.
func (s *Store) LateRuns(ctx context.Context, judge ledger.Judge, limit int) (out ledger.Lateness, err error) {
	err = s.tx(ctx, "late", func(t *tx) error {
		out = ledger.Lateness{}
		now, err := judge(t.now())
		if err != nil {
			return err
		}
		var come []Expectation
		for e := range t.expected.rows {
			if e.DueBy <= micros(now.Add(-ledger.LateAfter)) {
				come = append(come, e)
			}
		}
		slices.SortFunc(come, func(a, b Expectation) int {
			return cmp.Or(cmp.Compare(a.DueBy, b.DueBy), cmp.Compare(a.Job, b.Job), cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.What, b.What))
		})
		come = come[:min(limit, len(come))]
		out.More = len(come) == limit
		for _, m := range come {
			remove(t, &t.expected, m)
			run, exists := t.triggers.rows[TriggerKey{m.Job, m.At, m.Seq}]
			if !exists {
				continue
			}
			is := jobs.Trigger{
				Job: run.Job, At: fromMicros(run.At), Seq: run.Seq, Outcome: jobs.Outcome(run.Outcome), TaskID: run.TaskID, Replica: run.Replica,
				StartedAt: fromMicros(run.StartedAt), FinishedAt: fromMicros(run.FinishedAt),
			}
			e, late := ledger.LateEvent(is, ledger.Expectation{What: ledger.Expected(m.What), By: fromMicros(m.DueBy)})
			if !late {
				continue
			}
			out.Events = append(out.Events, e)
			id, err := t.s.newID()
			if err != nil {
				return err
			}
			put(t, &t.events, event{
				ID: id, Event: string(e.Event), Job: e.Job, TriggerAt: micros(e.ScheduledAt), TriggerSeq: e.Seq, Count: e.Count,
				TaskID: e.TaskID, Replica: e.Replica, Reason: e.Reason, ReasonCode: e.ReasonCode, HappenedAt: micros(t.now()),
			})
		}
		return nil
	})
	if err != nil {
		return ledger.Lateness{}, err
	}
	return out, nil
}
