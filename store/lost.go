package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// lostLook is how many lost tasks of a job are read, and how many cancelled ones, the latest.
const lostLook = 100

// findLost adds to the locked rows of busy jobs the lost attempts that keep them busy.
func (w *decision) findLost(t *tx) error {
	var busy []string
	for _, r := range w.rows {
		if r.BusyUntil.After(w.now) {
			busy = append(busy, r.Name)
		}
	}
	lost, err := t.lostTasks(w.now, busy)
	for _, r := range w.rows {
		r.Lost = lost[r.Name]
	}
	return err
}

// lostTasks are the ended tasks of the jobs with lost attempts that may still be running, by job, the latest loss first. A job
// that allows several runs at once may have several. Two kinds of attempts are not found: one that a program older than the
// column recorded as lost, and one of a task that was to run again and was cancelled before, by a program that did not keep until when it may run. The latest of each job of a list
// would be a LATERAL, which MariaDB 10.6 does not have, or a window, which reads all.
//
// Index: done_job, from the latest.
func (t *tx) lostTasks(now time.Time, names []string) (map[string][]ledger.LostTask, error) {
	lost := map[string][]ledger.LostTask{}
	for part := range slices.Chunk(names, 100) {
		var looks []string
		var args []any
		for _, name := range part {
			for _, state := range []jobs.State{jobs.StateLost, jobs.StateCancelled} {
				looks = append(looks, `SELECT job, id, trigger_at, replica, finished_at, may_run_until FROM (
					SELECT job, id, trigger_at, replica, finished_at, may_run_until FROM {done}{index}{done}_job{end}
					WHERE job=? AND job>'' AND state=? ORDER BY id DESC LIMIT ?) AS latest WHERE may_run_until>?`)
				args = append(args, name, state, lostLook, micros(now))
			}
		}
		err := each(t.rows(strings.Join(looks, " UNION ALL "), args...), func(m *doneModel) {
			lost[m.Task.Job] = append(lost[m.Task.Job], ledger.LostTask{
				ID: m.Task.ID, ScheduledAt: fromMicros(m.Task.TriggerAt), Replica: string(m.Task.Replica), At: fromMicros(m.Task.FinishedAt), Until: fromMicros(m.MayRunUntil),
			})
		})
		if err != nil {
			return nil, err
		}
	}
	for _, tasks := range lost {
		slices.SortFunc(tasks, func(a, b ledger.LostTask) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID)) })
	}
	return lost, nil
}

// giveUp records that these attempts have ended.
//
// Index: primary key.
func (t *tx) giveUp(lost []ledger.LostTask) error {
	_, err := t.Exec("UPDATE {done}{by_key} SET may_run_until=0 WHERE {in name id}",
		sqlkit.Rows(lost, func(l ledger.LostTask) []any { return []any{l.ID} }))
	return err
}

// freeJobs frees jobs of lost attempts that have written their own result. Such an attempt runs no more: its job waits for its
// other lost attempts alone. A job that is busy for longer than this attempt, with another token as its fence, waits for an
// attempt that is not known.
func (t *tx) freeJobs(now time.Time, late []move) error {
	came := map[string][]move{}
	var names []string
	for _, m := range late {
		if m.Job != "" {
			came[m.Job] = append(came[m.Job], m)
			names = append(names, m.Job)
		}
	}
	locked, err := t.lockJobs(names)
	if err != nil {
		return err
	}
	locked = slices.DeleteFunc(locked, func(r *jobRow) bool {
		return r.BusyUntil.IsZero() || !slices.ContainsFunc(came[r.Name], func(m move) bool {
			return m.Token == r.Fence || m.mayRunUntil.Equal(r.BusyUntil)
		})
	})
	lost, err := t.lostTasks(now, mapped(locked, (*jobRow).name))
	if err != nil {
		return err
	}
	for _, r := range locked {
		r.BusyUntil, r.changed = time.Time{}, true
		for _, other := range lost[r.Name] {
			if !slices.ContainsFunc(came[r.Name], func(m move) bool { return m.ID == other.ID }) {
				r.BusyUntil = later(r.BusyUntil, other.Until)
			}
		}
	}
	return t.saveJobs(locked)
}
