package store

import (
	"database/sql"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// definedJob is a row of {jobs}, whole: the upsert writes all of it.
type definedJob struct {
	name                 string
	stripe               int
	hash, schedule       string
	config, cursor, next int64
	waiting              int64
	fence                int64
	suspended            sql.NullBool
	suspendedBy          string
	busyUntil            int64
}

func (r definedJob) differs(d *ledger.JobDef) bool {
	if d == nil {
		return r.hash != ""
	}
	return r.hash != d.Hash || r.schedule != d.Schedule || r.stripe != d.Stripe
}

// jobRows reads all rows, or those with the given names.
func (t *tx) jobRows(names []string, lock bool) (map[string]definedJob, error) {
	rows := map[string]definedJob{}
	text, args := named(`SELECT name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, fence, suspended, suspended_by, busy_until FROM {jobs}`, names, lock)
	err := t.Query(text, args, func(scan func(...any) error) error {
		var r definedJob
		err := scan(&r.name, &r.stripe, &r.hash, &r.schedule, &r.config, &r.cursor, &r.next, &r.waiting, &r.fence, &r.suspended, &r.suspendedBy, &r.busyUntil)
		rows[r.name] = r
		return err
	})
	return rows, err
}

// writeJobs makes the rows of the named jobs say what defs say. The cursor never moves back, and
// moves to now, as judge takes it, where the schedule is new: an edit fires nothing of the past. What was due by the old
// schedule and was not decided yet is missed.
func (t *tx) writeJobs(config int64, names []string, defs map[string]*ledger.JobDef, judge ledger.Judge) error {
	rows, err := t.jobRows(names, true)
	if err != nil {
		return err
	}
	now, err := t.judged(judge)
	if err != nil {
		return err
	}
	var changed [][]any
	var undecided []jobs.Trigger
	for _, name := range names {
		row, d := rows[name], defs[name]
		if !row.differs(d) {
			continue // somebody wrote it, or took it out, in the meantime
		}
		at := ledger.Undecided(fromMicros(row.next), fromMicros(row.waiting))
		if schedule := scheduleOf(d); !at.IsZero() && !at.After(now) && row.schedule != schedule {
			undecided = append(undecided, overtaken(name, at, schedule, now))
		}
		switch {
		case d == nil: // retired; when it comes back, its schedule is new
			row.hash, row.schedule, row.next, row.waiting = "", "", 0, 0
		case row.name == "" || row.schedule != d.Schedule:
			row.cursor = max(row.cursor, micros(now))
			row.schedule, row.next, row.waiting = d.Schedule, micros(d.Next(fromMicros(row.cursor))), 0
		}
		if d != nil {
			row.name, row.hash, row.stripe = name, d.Hash, d.Stripe
		}
		changed = append(changed, []any{
			row.name, row.stripe, row.hash, row.schedule, config, row.cursor, row.next, row.waiting,
			row.fence, row.suspended, row.suspendedBy, row.busyUntil,
		})
	}
	err = t.Upsert(`{jobs} (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, fence, suspended, suspended_by, busy_until)`, "name", changed)
	if err != nil {
		return err
	}
	if _, err := t.insertTriggers(undecided); err != nil {
		return err
	}
	return t.happened(now, missed(undecided))
}

func scheduleOf(d *ledger.JobDef) string {
	if d == nil {
		return ""
	}
	return d.Schedule
}

// overtaken is the row for the first due time that an edit found undecided. How many more there were
// only the old schedule knows, and nobody has that any more.
func overtaken(job string, at time.Time, schedule string, now time.Time) jobs.Trigger {
	code, why := reason.ScheduleChanged, ledger.ReasonEdited
	if schedule == "" {
		code, why = reason.JobRemoved, ledger.ReasonRemoved
	}
	return jobs.Trigger{
		Job: job, At: at, Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Missed,
		Reason: why, ReasonCode: code, DecidedAt: now,
	}
}

// definedPool is a row of {pools}, whole.
type definedPool struct {
	name, hash              string
	config                  int64
	maxRunning, maxAttempts int
	onLost                  string
	paused                  sql.NullBool
	pausedBy                string
	kinds                   []byte
}

func (r definedPool) differs(d *ledger.PoolDef) bool {
	if d == nil {
		return r.hash != ""
	}
	return r.hash != d.Hash || r.maxRunning != d.MaxRunning || r.maxAttempts != d.MaxAttempts || r.onLost != string(onLost(d.Retry)) ||
		string(r.kinds) != string(handled{d.Hash, d.Kinds}.encode())
}

// other is what a replica goes by that has the pool otherwise.
func (r definedPool) other(name string) (ledger.OtherPool, error) {
	o := ledger.OtherPool{Name: name, Hash: r.hash}
	if r.hash == "" {
		return o, nil
	}
	has, err := readHandled(r.kinds)
	if o.MaxRunning = r.maxRunning; has.Hash == r.hash { // of a program that writes no kinds nothing is known
		o.Kinds = has.Kinds
	}
	return o, err
}

func onLost(retry bool) jobs.OnLost {
	if retry {
		return jobs.LostRetries
	}
	return jobs.LostFails
}

// poolRows reads all rows, or those with the given names.
func (t *tx) poolRows(names []string, lock bool) (map[string]definedPool, error) {
	rows := map[string]definedPool{}
	text, args := named(`SELECT name, hash, config, max_running, max_attempts, on_lost, paused, paused_by, kinds FROM {pools}`, names, lock)
	err := t.Query(text, args, func(scan func(...any) error) error {
		var r definedPool
		err := scan(&r.name, &r.hash, &r.config, &r.maxRunning, &r.maxAttempts, &r.onLost, &r.paused, &r.pausedBy, &r.kinds)
		rows[r.name] = r
		return err
	})
	return rows, err
}

// writePools makes the rows of the named pools say what defs say.
func (t *tx) writePools(config int64, names []string, defs map[string]*ledger.PoolDef) error {
	rows, err := t.poolRows(names, true)
	if err != nil {
		return err
	}
	var changed [][]any
	for _, name := range names {
		row, d := rows[name], defs[name]
		if !row.differs(d) {
			continue
		}
		if d == nil {
			row.hash = ""
		} else {
			row.name, row.hash, row.maxRunning, row.maxAttempts, row.onLost = name, d.Hash, d.MaxRunning, d.MaxAttempts, string(onLost(d.Retry))
			row.kinds = handled{d.Hash, d.Kinds}.encode()
		}
		changed = append(changed, []any{row.name, row.hash, config, row.maxRunning, row.maxAttempts, row.onLost, row.paused, row.pausedBy, row.kinds})
	}
	return t.Upsert(`{pools} (name, hash, config, max_running, max_attempts, on_lost, paused, paused_by, kinds)`, "name", changed)
}

// named adds WHERE name IN (…), for no names nothing, and the lock. Names must be sorted.
func named(text string, names []string, lock bool) (string, []any) {
	var args []any
	if names != nil {
		args = sqlkit.Texts(names)
		text += ` WHERE name IN (` + sqlkit.Marks(len(names)) + `) ORDER BY name`
	}
	if lock {
		text += `{for_update}`
	}
	return text, args
}
