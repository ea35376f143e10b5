package store

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The state of a task is written in this file, and nowhere else; see the drawing in the package comment.
//
// Rows are locked one by one, in the order of the primary key: {by_key} makes MySQL use it, state+0 keeps SQLite from the indexes
// on state. What an owner writes carries its token.

// insertPending adds enqueued tasks.
func (t *tx) insertPending(now time.Time, batch []*newTask) error {
	rows := sqlkit.Rows(batch, func(p *newTask) []any {
		k := &p.task
		return []any{
			k.ID, k.Pool, k.Kind, k.Key, pendingRow(k.RunAt, now), -k.Priority, micros(k.RunAt), micros(k.ExpiresAt), k.OwnAttempts, microsOf(k.Timeout), microsOf(k.Backoff), k.MaxAttempts, string(k.OnLost), k.LostLimit,
			p.key, []byte(k.Payload), storedSize(k.Payload), encodeTags(k.Tags), []byte{}, micros(now), k.By,
		}
	})
	_, err := t.Insert(`{tasks} (id, pool, kind, task_key, state, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, max_attempts, on_lost, lost_limit, idem_key, payload, payload_size, tags, error, created_at, made_by)`, rows)
	return err
}

// pendingRow is the state of a pending task that is due at runAt.
func pendingRow(runAt, now time.Time) int {
	if runAt.After(now) {
		return rowWaits
	}
	return rowReady
}

// insertOpened adds tasks of jobs, in the states that the admission gave them.
func (t *tx) insertOpened(tasks []openTask) error {
	rows := sqlkit.Rows(tasks, func(r openTask) []any {
		return []any{
			r.ID, r.Pool, r.Kind, r.Job, micros(r.ScheduledAt), r.Seq, r.row, -r.Priority, micros(r.RunAt), r.Attempt,
			r.MaxAttempts, string(r.OnLost), r.LostLimit, r.Token, r.session, r.Replica, micros(r.mayRunUntil), []byte(r.Payload),
			storedSize(r.Payload), encodeTags(r.Tags), r.RetryOf, clip.Text(r.Reason, 512), string(r.ReasonCode),
			[]byte{},
			micros(r.CreatedAt), micros(r.StartedAt), clip.Text(r.By, limits.By),
		}
	})
	_, err := t.Insert(`{tasks} (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at,
		attempt, max_attempts, on_lost, lost_limit, token, session_id, replica, may_run_until, payload, payload_size, tags, retry_of, reason, reason_code, error,
		created_at, started_at, made_by)`, rows)
	return err
}

// insertRetries adds copies of ended tasks that are due now, under the ids of fresh; none of those that are not in {done}.
//
// Index: primary key of done.
func (t *tx) insertRetries(now time.Time, by string, ended []openTask, fresh map[string]string) error {
	_, err := t.Exec(`INSERT INTO {tasks} (id, pool, kind, task_key, state, rank_order, run_at, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, payload, payload_size,
			tags, retry_of, reason, reason_code, error, created_at, made_by)
		SELECT {name fresh}, pool, kind, task_key, 0, rank_order, ?, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, payload, payload_size,
			tags, CASE retry_of WHEN '' THEN id ELSE retry_of END, {text why}, '`+string(reason.Retry)+`', '', ?, ?
		FROM {each}{done}{by_key} WHERE {in name id}`,
		sqlkit.Rows(ended, func(r openTask) []any {
			why := "retry of " + r.ID
			if by != "" {
				why = clip.Text(why+" by "+by, 512)
			}
			return []any{fresh[r.ID], why, r.ID}
		}), micros(now), micros(now), clip.Text(by, limits.By))
	return err
}

// markRetried says of ended tasks what a retry made of them. They are no dead letters any more.
//
// Index: primary key of done.
func (t *tx) markRetried(rows sqlkit.Many) (int64, error) {
	return t.Exec("UPDATE {each}{done}{by_key} SET retried_as={name fresh}, fingerprint='' WHERE {in name id, name retried_as}", rows)
}

// promoteTasks makes waiting tasks ready.
//
// Index: primary key.
func (t *tx) promoteTasks(ids []string) error {
	_, err := t.Exec("UPDATE {tasks}{by_key} SET state=0 WHERE state+0=1 AND {in name id}", sqlkit.Keys(ids))
	return err
}

// startTasks makes tasks running that are still as they were, in one of the states from, and returns how many. What an earlier attempt or a
// wait has left is cleared where there may be something: to write these columns takes a fifth of the time of the statement.
//
// Index: primary key.
func (t *tx) startTasks(claim string, from [2]int, tasks []*taken) (started int, err error) {
	for part := range slices.Chunk(tasks, sqlkit.MaxRows) {
		first, left := &part[0].is, ""
		if slices.ContainsFunc(part, func(m *taken) bool { return m.was.hasLeft() }) {
			left = ", reason='', reason_code='', error='', exit_code=NULL, cancel=''"
		}
		n, err := t.Exec(`UPDATE {each}{tasks}{by_key}
			SET token=token+{int more}, may_run_until={int until}, max_attempts={int attempts}, on_lost={name on_lost}, lost_limit={int losses},
				state=2, attempt=attempt+1, session_id=?, replica=?, claim_id=?, started_at=?`+left+`
			WHERE state+0 IN (?, ?) AND {in name id, int token}`,
			sqlkit.Rows(part, func(m *taken) []any {
				return []any{m.is.Token - m.was.Token, micros(m.is.mayRunUntil), m.is.MaxAttempts, string(m.is.OnLost), m.is.LostLimit, m.was.ID, m.was.Token}
			}), first.session, first.Replica, claim, micros(first.StartedAt), from[0], from[1])
		if err != nil {
			return started, err
		}
		started += int(n)
	}
	return started, nil
}

// guard is the condition under which moves write a row: it is as they take it to be.
//
// Index: primary key.
type guard struct {
	where string
	args  []any
	key   func(m move) []any // what where has in {in}
}

// The states in which rows were read that are moved.
var (
	isPending = asRead(rowReady, rowWaits)
	isLocked  = asRead(rowLocked, rowLocked)
	isKeyed   = asRead(rowKeyed, rowKeyed)
	isQueued  = asRead(rowQueued, rowQueued)
	isRunning = asRead(rowRunning, rowRunning)
)

// asRead: the row has the owner and the may_run_until that were read. Otherwise the time until which its attempt may run would
// be recorded wrong.
func asRead(states ...any) guard {
	return guard{
		"state+0 IN (?, ?) AND {in name id, int token, int may_run_until}", states,
		func(m move) []any { return []any{m.ID, m.Token, micros(m.mayRunUntil)} },
	}
}

// asGiven: the row, which was not read, is one that the session runs under the token that it was given.
func asGiven(session string) guard {
	return guard{
		"state+0=? AND session_id=? AND {in name id, int token}", []any{rowRunning, session},
		func(m move) []any { return []any{m.ID, m.Token} },
	}
}

// endTasks moves rows from {tasks} to {done}.
func (t *tx) endTasks(now time.Time, g guard, ended []move) error {
	rows := sqlkit.Rows(ended, func(m move) []any {
		key := g.key(m)
		return append(append(make([]any, 0, 10+len(key)),
			string(m.end), m.failures(), m.losses(), clip.Text(m.reason, 512), string(m.code), m.failure, m.exitCode(), micros(m.until), m.fingerprint(), micros(m.finished(now)),
		), key...)
	})
	n, err := t.Exec(`INSERT INTO {done} (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			{name end}, failures+{int failures}, losses+{int losses}, {text reason}, {name code}, {text error}, {int exit}, {int until}, {name fingerprint}, {int finished}
		FROM {each}{tasks}{by_key} WHERE `+g.where+`{for_update}`,
		slices.Concat([]any{rows}, g.args)...)
	if err := all(n, err, ended); err != nil {
		return err
	}
	n, err = t.Exec("{delete} {tasks} AS t{by_key} WHERE "+g.where, slices.Concat([]any{sqlkit.Rows(ended, g.key)}, g.args)...)
	return all(n, err, ended)
}

// requeue makes rows pending again and clears what the claim had set. The token stays: that of the next
// claim is larger. A cancellation that was requested in between must not be cleared unseen.
func (t *tx) requeue(g guard, pending []move) error {
	rows := sqlkit.Rows(pending, func(m move) []any {
		return append([]any{
			bit(m.to == toWait) * rowWaits, micros(m.due()), m.undone(), m.failures(), m.losses(),
			clip.Text(m.reason, 512), string(m.code), m.failure, m.exitCode(),
		}, g.key(m)...)
	})
	n, err := t.Exec(`UPDATE {each}{tasks}{by_key}
		SET state={int state}, run_at={int due}, attempt=attempt-{int undone}, failures=failures+{int failures}, losses=losses+{int losses},
			reason={text reason}, reason_code={name code}, error={text error}, exit_code={int exit},
			session_id='', replica='', claim_id='', may_run_until=0, cancel='', started_at=0, progress=''
		WHERE cancel='' AND `+g.where, slices.Concat([]any{rows}, g.args)...)
	return all(n, err, pending)
}

// replacement is a pending task as it was read, and what it is to be.
type replacement struct{ was, is openTask }

// replacePending writes what changes can set of pending tasks, if they are still as they were read.
//
// Index: primary key.
func (t *tx) replacePending(tasks []replacement) error {
	for part := range sqlkit.Portions(tasks, sqlkit.MaxRows, func(r replacement) int { return len(r.is.Payload) }) {
		n, err := t.Exec(`UPDATE {each}{tasks}{by_key}
			SET state={int state}, rank_order={int rank}, run_at={int run_at}, expires_at={int expires_at}, payload={text payload}, payload_size={int size}, tags={text tags},
				own_attempts={int own}, max_attempts={int most}, own_timeout={int timeout}, own_backoff={int backoff}, reason={text reason}, reason_code={name code}, token={int next}
			WHERE state+0={int was} AND {in name id, int token}`,
			sqlkit.Rows(part, func(r replacement) []any {
				return []any{
					r.is.row, -r.is.Priority, micros(r.is.RunAt), micros(r.is.ExpiresAt), string(r.is.Payload), storedSize(r.is.Payload), string(encodeTags(r.is.Tags)),
					r.is.OwnAttempts, r.is.MaxAttempts, microsOf(r.is.Timeout), microsOf(r.is.Backoff), r.is.Reason, string(r.is.ReasonCode), r.is.Token, r.was.row, r.was.ID, r.was.Token,
				}
			}))
		if err == nil && n != int64(len(part)) {
			err = sqlkit.ErrMoved
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockTasks makes ready tasks, and those that wait for their key, wait for their locks that are still as they were.
//
// Index: primary key.
func (t *tx) lockTasks(tasks []locked) error {
	_, err := t.Exec(`UPDATE {each}{tasks}{by_key} SET state=3, reason={text reason}, reason_code='`+string(reason.WaitsForLock)+`'
		WHERE state+0 IN (0, 4) AND {in name id, int token}`,
		sqlkit.Rows(tasks, func(l locked) []any { return []any{clip.Text(l.Reason, 512), l.ID, l.Token} }))
	return err
}

// unlockTasks makes tasks ready that wait for their locks.
//
// Index: primary key.
func (t *tx) unlockTasks(ids []string) error {
	_, err := t.Exec("UPDATE {tasks}{by_key} SET state=0, reason='', reason_code='' WHERE state+0=3 AND {in name id}", sqlkit.Keys(sqlkit.Distinct(ids)))
	return err
}

// keyTasks makes tasks wait for their kind or their key that are ready, or wait for the other one, and are still as they were. It returns how
// many.
//
// Index: primary key.
func (t *tx) keyTasks(tasks []*openTask) (int64, error) {
	return t.Exec(`UPDATE {each}{tasks}{by_key} SET state=4, reason={text reason}, reason_code={name code}
		WHERE state+0 IN (0, 4) AND {in name id, int token}`,
		sqlkit.Rows(tasks, func(r *openTask) []any { return []any{clip.Text(r.Reason, 512), string(r.ReasonCode), r.ID, r.Token} }))
}

// unkeyTasks makes tasks ready that wait for their keys.
//
// Index: primary key.
func (t *tx) unkeyTasks(ids []string) error {
	_, err := t.Exec("UPDATE {tasks}{by_key} SET state=0, reason='', reason_code='' WHERE state+0=4 AND {in name id}", sqlkit.Keys(sqlkit.Distinct(ids)))
	return err
}

// grantSlots makes tasks ready that wait for a slot of their job, whose row is locked: it is for them.
//
// Index: primary key.
func (t *tx) grantSlots(ids []string) error {
	n, err := t.Exec("UPDATE {tasks}{by_key} SET state=0, reason='', reason_code='' WHERE state+0=5 AND {in name id}", sqlkit.Keys(sqlkit.Distinct(ids)))
	if err == nil && n != int64(len(ids)) { // one was cancelled meanwhile
		return sqlkit.ErrMoved
	}
	return err
}

// replaceLostTasks writes the own late results of tasks that had ended as lost, once: column late is set. Those that were retried are no dead
// letters.
//
// Index: primary key of done.
func (t *tx) replaceLostTasks(now time.Time, late []move) error {
	n, err := t.Exec(`UPDATE {each}{done}{by_key}
		SET state={name end}, reason={text reason}, reason_code={name code}, error={text error}, exit_code={int exit},
			fingerprint=CASE WHEN retried_as='' THEN {name fingerprint} ELSE '' END, late=1, finished_at={int finished}
		WHERE COALESCE(state, '')='lost' AND late=0 AND {in name id, int token}`,
		sqlkit.Rows(late, func(m move) []any {
			return []any{string(m.end), clip.Text(m.reason, 512), string(m.code), m.failure, m.exitCode(), m.fingerprint(), micros(m.finished(now)), m.ID, m.Token}
		}))
	return all(n, err, late)
}
