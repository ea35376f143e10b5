package memstore

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// deadSessionsFor is how long the row of a dead session stays, and deadWorkersFor that of a worker's.
const (
	deadSessionsFor = time.Hour
	deadWorkersFor  = time.Minute
)

// Sweep implements ledger.Tasks.
func (s *Store) Sweep(ctx context.Context, judge ledger.Judge, r jobs.Retention, limit int) (more bool, err error) {
	err = s.tx(ctx, "sweep", func(t *tx) error {
		now, err := judge(t.now())
		if err != nil {
			return err
		}
		old := func(at int64, age time.Duration) bool { return age > 0 && at < micros(now.Add(-age)) }
		swept := map[string]int{}
		room := func(kind string) bool {
			if swept[kind] == limit {
				return false
			}
			swept[kind]++
			more = more || swept[kind] == limit
			return true
		}
		if err := t.cancelRetired(now, func() bool { return room("retired") }); err != nil {
			return err
		}
		for k, g := range t.triggers.rows {
			if g.Outcome != "" && old(g.At, r.Triggers) && old(g.Until, r.Triggers) && old(g.DecidedAt, r.Triggers) && old(g.FinishedAt, r.Triggers) && room("trigger") {
				remove(t, &t.triggers, k)
			}
		}
		for id, o := range t.orders.rows {
			if o.EndedAt > 0 && old(o.EndedAt, r.Triggers) && room("order") {
				remove(t, &t.orders, id)
			}
		}
		for k, d := range t.history.rows {
			if d.UntilAt == 0 || !old(d.UntilAt, r.Triggers) {
				continue
			}
			left := false
			for g := range t.triggers.rows {
				left = left || g.Job == d.Job && g.At <= d.UntilAt
			}
			if !left && room("definition") {
				remove(t, &t.history, k)
			}
		}
		for id, d := range t.done.rows {
			age := r.Failed
			if d.State == string(jobs.StateSucceeded) {
				age = r.Succeeded
			}
			if old(d.FinishedAt, age) && room(d.State) {
				t.forget(id)
			}
		}
		for k, o := range t.outputs.rows {
			if old(o.CreatedAt, r.Output) && room("output") {
				remove(t, &t.outputs, k)
			}
		}
		for k, u := range t.unique.rows {
			if u.LookAt == 0 || !old(u.LookAt, time.Hour) || !room("unique task") {
				continue
			}
			if t.uniqueNow(u, micros(now)) {
				u.LookAt = 0
				put(t, &t.unique, u)
			} else {
				remove(t, &t.unique, k)
			}
		}
		busy := map[string]bool{}
		for _, task := range t.tasks.rows {
			busy[task.Session] = busy[task.Session] || task.State == Running
		}
		for id, row := range t.sessions.rows {
			age, what := deadSessionsFor, "session"
			if row.Pool != "" {
				age, what = deadWorkersFor, "worker's session"
			}
			if row.Dead && !busy[id] && old(row.SeenAt, age) && room(what) {
				remove(t, &t.sessions, id)
			}
		}
		for key := range t.kinds.rows {
			kept := key.config == 0
			for _, row := range t.sessions.rows {
				kept = kept || row.Config == key.config
			}
			if !kept && room("kind") {
				remove(t, &t.kinds, key)
			}
		}
		t.forgetConfigurations(func(c configuration) bool { return old(c.At, r.Triggers) }, func() bool { return room("configuration") })
		return nil
	})
	return more, err
}

// forgetConfigurations deletes the numbers of configurations that no session has, that were superseded by an old one, and that are not among the newest.
func (t *tx) forgetConfigurations(old func(configuration) bool, room func() bool) {
	newest, oldest := int64(0), int64(0) // oldest: the newest one of those that are old
	for _, c := range t.configs.rows {
		newest = max(newest, c.Number)
		if old(c) {
			oldest = max(oldest, c.Number)
		}
	}
	loaded := map[string]bool{}
	for _, row := range t.sessions.rows {
		loaded[row.ConfigHash] = true
	}
	for hash, c := range t.configs.rows {
		if c.Number < oldest && c.Number <= newest-ledger.KeptConfigurations && !loaded[hash] && room() {
			remove(t, &t.configs, hash)
		}
	}
}

// cancelRetired cancels the pending tasks of jobs that no configuration has any more, while there is room.
func (t *tx) cancelRetired(now time.Time, room func() bool) error {
	var ended []happening
	if t.makes(KeepsRetired) {
		return nil
	}
	for _, row := range t.tasks.rows {
		if row.Job != "" && t.jobs.rows[row.Job].Hash == "" && row.State != Running && room() {
			if _, h := t.withdraw(now, row, ledger.ReasonRetired, reason.JobRemoved); h != nil {
				ended = append(ended, *h)
			}
		}
	}
	return t.happened(now, ended)
}

// forget deletes an ended task with all that belongs to it.
func (t *tx) forget(id string) {
	remove(t, &t.done, id)
	for k := range t.attempts.rows {
		if k.TaskID == id {
			remove(t, &t.attempts, k)
		}
	}
	for k := range t.outputs.rows {
		if k.TaskID == id {
			remove(t, &t.outputs, k)
		}
	}
	remove(t, &t.results, id)
	for k := range t.chunks.rows {
		if k.TaskID == id {
			remove(t, &t.chunks, k)
		}
	}
	for k, row := range t.keys.rows {
		if row.TaskID == id {
			remove(t, &t.keys, k)
		}
	}
	for k, row := range t.unique.rows {
		if row.TaskID == id {
			remove(t, &t.unique, k)
		}
	}
}
