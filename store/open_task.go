package store

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What state says in {tasks}. A task that ended is in {done}.
const (
	ready   = 0 // may be claimed
	waits   = 1 // until run_at
	running = 2
)

// openTask is a row of {tasks}.
type openTask struct {
	jobs.Task
	state       int
	session     string
	cancel      string
	failures    int
	mayRunUntil time.Time
}

const openColumns = `id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt,
	failures, losses, max_attempts, on_lost, token, session_id, replica, may_run_until, cancel, idem_key,
	tags, retry_of, reason, error, exit_code, created_at, started_at`

// openTasks reads rows of {tasks}, in the order of the statement. where is what follows the table's
// name. The payload is read only by those who hand it to somebody: it may be large.
func (t *tx) openTasks(payload bool, where string, args ...any) ([]openTask, error) {
	columns := openColumns + ", ''"
	if payload {
		columns = openColumns + ", payload"
	}
	var list []openTask
	err := t.query("SELECT "+columns+" FROM {tasks} "+where, args, func(scan func(...any) error) error {
		var r openTask
		var at, runAt, until, created, started int64
		var tags, text, body []byte
		var exit *int
		err := scan(&r.ID, &r.Pool, &r.Kind, &r.Job, &at, &r.Seq, &r.state, &r.Priority, &runAt, &r.Attempt,
			&r.failures, &r.Lost, &r.MaxAttempts, &r.OnLost, &r.Token, &r.session, &r.Replica, &until, &r.cancel,
			&r.IdempotencyKey, &tags, &r.RetryOf, &r.Reason, &text, &exit, &created, &started, &body)
		if err != nil {
			return err
		}
		r.Priority = -r.Priority
		r.State = jobs.StatePending
		if r.state == running {
			r.State = jobs.StateRunning
		}
		r.ScheduledAt, r.RunAt, r.mayRunUntil = fromMicros(at), fromMicros(runAt), fromMicros(until)
		r.CreatedAt, r.StartedAt = fromMicros(created), fromMicros(started)
		r.Error, r.ExitCode = string(text), exit
		if payload {
			r.Payload = body
		}
		r.Tags, err = readTags(tags)
		list = append(list, r)
		return err
	})
	return list, err
}

func (r openTask) id() string { return r.ID }

// byID sorts rows as the primary key does: locks are taken in this order.
func byID(a, b openTask) int { return strings.Compare(a.ID, b.ID) }

// ofTriggers are those of the tasks whose end or start the ledger tells.
func ofTriggers(list []openTask) []openTask {
	return slices.DeleteFunc(slices.Clone(list), func(r openTask) bool { return r.Job == "" })
}
