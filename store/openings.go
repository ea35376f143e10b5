package store

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// number fills in what d.Decide leaves to the store: the seq of triggers that come from no schedule,
// under the lock of their jobs.
//
// Index: primary key of triggers.
func (w *decision) number(t *tx) error {
	last := map[ledgerKey]int{} // by keys without seq
	var wanted []ledgerKey
	openings := w.openings()
	for _, o := range openings {
		if o.Trigger.Job == "" {
			continue
		}
		if byNoSchedule(o.Trigger) {
			wanted = append(wanted, ledgerKey{o.Trigger.Job, micros(o.Trigger.At), 0})
		} else {
			o.Trigger.Seq = 0
		}
	}
	for part := range slices.Chunk(wanted, sqlkit.MaxRows) {
		err := each(t.rows("SELECT job, at, MAX(seq) AS seq FROM {triggers} WHERE {in name job, int at} GROUP BY job, at",
			sqlkit.Rows(part, func(k ledgerKey) []any { return []any{k.job, k.at} })),
			func(m *triggerModel) { last[ledgerKey{job: m.Job, at: m.At}] = m.Seq })
		if err != nil {
			return err
		}
	}
	for _, o := range openings {
		if o.Trigger.Job != "" && byNoSchedule(o.Trigger) {
			k := ledgerKey{o.Trigger.Job, micros(o.Trigger.At), 0}
			last[k]++
			o.Trigger.Seq = last[k]
		}
	}
	return nil
}

func byNoSchedule(g jobs.Trigger) bool {
	return g.Cause != jobs.CauseSchedule && g.Cause != jobs.CauseCatchUp
}

// openings are all of w.out, in order, to be changed in place.
func (w *decision) openings() []*ledger.Opening {
	var all []*ledger.Opening
	for i := range w.out.Decisions {
		for k := range w.out.Decisions[i].Triggers {
			all = append(all, &w.out.Decisions[i].Triggers[k])
		}
	}
	return all
}

// leaveOut drops the openings that have a ledger row already.
//
// Index: primary key of triggers.
func (w *decision) leaveOut(t *tx) error {
	var keys []ledgerKey
	for _, o := range w.openings() {
		if o.Trigger.Job != "" {
			keys = append(keys, keyOf(o.Trigger))
		}
	}
	exist := map[ledgerKey]bool{}
	for part := range slices.Chunk(keys, sqlkit.MaxRows) {
		err := each(t.rows("SELECT job, at, seq FROM {triggers} WHERE {in name job, int at, int seq}",
			sqlkit.Rows(part, func(k ledgerKey) []any { return []any{k.job, k.at, k.seq} })),
			func(m *triggerModel) { exist[ledgerKey{m.Job, m.At, m.Seq}] = true })
		if err != nil {
			return err
		}
	}
	for i, dec := range w.out.Decisions {
		w.out.Decisions[i].Triggers = slices.DeleteFunc(slices.Clone(dec.Triggers), func(o ledger.Opening) bool {
			return o.Trigger.Job != "" && exist[keyOf(o.Trigger)]
		})
	}
	return nil
}
