package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Reap frees the running tasks of all dead sessions: they end as lost or are pending again, by
// their policy, at most limit of them. It implements ledger.Tasks.
//
// It reads all sessions that are dead, whenever they ended, so it also finds a claim that commits
// afterwards. If an attempt was lost, its job is busy until the attempt must have ended, and a task
// that runs again waits until then. Those of workers have ended: a worker does not run on when its session may have expired. A task that was
// lost with as many replicas as its limit allows ends as quarantined.
//
// Errors: jobs.ErrUnavailable. Any other error is the database's refusal of some of the tasks, which
// stay as they are. With an error, too, the answer is what was reaped: one row that the database
// refuses holds up no other.
func (s replica) Reap(ctx context.Context, limit int) ([]ledger.Reaped, error) {
	// In most calls there is nothing to reap, and nothing to lock.
	found, err := get(ctx, s.read, "reap", func(t *tx) ([]string, error) {
		return column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND "+ofDead+" LIMIT ?", limit))
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var all []ledger.Reaped
	inARow := 0 // refusals
	ledger.Halve(found, func(tasks []string) (refused, goOn bool) {
		w := &reap{tasks: tasks}
		once := s.settle(ctx, "reap", w.write, w.committed)
		if once == nil {
			inARow = 0
			all = append(all, w.out...)
			return false, true
		}
		inARow++
		goOn = inARow < refusedForAll && !errors.Is(once, jobs.ErrUnavailable) // else no further try can succeed
		if !goOn || len(tasks) == 1 {
			err = errors.Join(err, once)
		}
		return true, goOn
	})
	return all, err
}

// ofDead is the condition that a running task's session is dead, or has no row any more.
//
// Index: primary key of sessions.
const ofDead = "NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.id=session_id AND s.dead=0)"

// refusedForAll is how many refusals in a row are not about single tasks: it takes ten to find one
// among 500.
const refusedForAll = 30

// reap is one transaction; each call of write starts it again.
type reap struct {
	tasks []string
	moves []move
	out   []ledger.Reaped
}

func (w *reap) write(t *tx) error {
	w.moves, w.out = nil, nil
	now, err := t.Now()
	if err != nil {
		return err
	}
	// Index: primary key.
	rows, err := t.openTasks(taskFacts, " WHERE {in name id} AND state+0=2 AND "+ofDead+" ORDER BY id", sqlkit.Keys(w.tasks))
	if err != nil || len(rows) == 0 {
		return err
	}
	workers, err := t.ofWorkers(mapped(rows, func(r openTask) string { return r.session }))
	if err != nil {
		return err
	}
	// This locks the rows of all jobs, and keepBusy some of them again.
	counting, err := t.countRuns(mapped(those(rows, func(r openTask) bool { return r.Job != "" }), func(r openTask) string { return r.Job }))
	if err != nil {
		return err
	}
	if err := keepBusy(t, those(rows, func(r openTask) bool { return !workers[r.session] })); err != nil {
		return err
	}
	killed, err := t.killed(rows)
	if err != nil {
		return err
	}
	chunked, err := t.chunked(rows)
	if err != nil {
		return err
	}
	for _, r := range rows {
		owner := "replica"
		if workers[r.session] {
			owner = "worker"
		}
		m := died(r, reason.ReplicaDied, fmt.Sprintf("the session of %s %s expired while it had the task", owner, r.Replica))
		if n := killed[r.ID] + 1; m.code == reason.LostLimit && n >= r.LostLimit {
			m.code = reason.Quarantined
			m.reason = fmt.Sprintf("quarantined: %d replicas died while they had it, the last one %s", n, r.Replica)
		}
		m.chunks, m.orphaned = chunked[r.ID], true
		switch {
		case workers[r.session]:
		case m.to == toDone:
			m.until = r.mayRunUntil
		case r.mayRunUntil.After(now):
			m.to, m.after = toWait, r.mayRunUntil
		}
		w.moves = append(w.moves, m)
		w.out = append(w.out, ledger.Reaped{Task: m.task(now), Replica: r.Replica})
	}
	if err := t.suspendAfter(now, counting, runEnds(w.moves)); err != nil {
		return err
	}
	return t.move(now, isRunning, w.moves)
}

// killed is how many earlier attempts of tasks that may not be lost once more ended with their replicas.
//
// Index: primary key of attempts.
func (t *tx) killed(rows []openTask) (map[string]int, error) {
	last := those(rows, func(r openTask) bool {
		return r.OnLost == jobs.LostRetries && r.cancel == "" && r.Lost > 0 && r.Lost+1 >= r.LostLimit
	})
	killed := map[string]int{}
	err := each(t.rows("SELECT task_id FROM {attempts} WHERE state='lost' AND reason_code='"+string(reason.ReplicaDied)+"' AND {in name task_id}",
		sqlkit.Keys(mapped(last, openTask.id))), func(m *attemptModel) { killed[m.TaskID]++ })
	return killed, err
}

// keepBusy marks the jobs of lost attempts as busy until the attempts must have ended. That time
// was read before the jobs were locked, and without a lock: the moves check that it has not changed.
func keepBusy(t *tx, rows []openTask) error {
	until := map[string]time.Time{}
	var names []string
	for _, r := range rows {
		if r.Job != "" {
			names = append(names, r.Job)
			until[r.Job] = later(until[r.Job], r.mayRunUntil)
		}
	}
	locked, err := t.lockJobs(names)
	if err != nil {
		return err
	}
	for _, job := range locked {
		if u := until[job.Name]; u.After(job.BusyUntil) {
			job.BusyUntil, job.changed = u, true
		}
	}
	return t.saveJobs(locked)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// committed checks one row: it has left its session, by this transaction or by that of another
// replica that did the same.
//
// Index: primary key.
func (w *reap) committed(t *tx) (bool, error) {
	if len(w.moves) == 0 {
		return true, nil
	}
	m := w.moves[0]
	still, err := t.One("SELECT id FROM {tasks} WHERE id=? AND token=? AND state+0=2{for_update}", []any{m.ID, m.Token}, new(string))
	return !still, err
}
