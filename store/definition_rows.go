package store

import (
	"cmp"
	"database/sql/driver"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

func (m jobModel) differs(d *ledger.JobDef) bool {
	if d == nil {
		return m.Hash != ""
	}
	return m.Hash != d.Hash || m.Schedule != d.Schedule || m.Stripe != d.Stripe
}

// writeJobs writes defs to the rows of the named jobs. The cursor never moves back. Where the schedule is new it moves to now,
// as judge takes it: an edit fires nothing of the past. What was due by the old schedule and was not decided yet is missed.
func (t *tx) writeJobs(config int64, names []string, defs map[string]*ledger.JobDef, judge ledger.Judge) error {
	rows, err := defined[jobModel](t, names, "{for_update}")
	if err != nil {
		return err
	}
	now, err := t.judged(judge)
	if err != nil {
		return err
	}
	var changed []jobModel
	var undecided []jobs.Trigger
	for _, name := range names {
		row, d := rows[name], defs[name]
		if !row.differs(d) {
			continue // written or removed by another process in the meantime
		}
		at := row.due()
		if schedule := scheduleOf(d); !at.IsZero() && !at.After(now) && row.Schedule != schedule {
			undecided = append(undecided, overtaken(name, at, schedule, now))
		}
		switch {
		case d == nil: // retired; when it comes back, its schedule is new
			row.Hash, row.Schedule, row.NextAt, row.WaitingAt = "", "", 0, 0
		case row.Name == "" || row.Schedule != d.Schedule:
			row.CursorAt = max(row.CursorAt, micros(now))
			row.Schedule, row.NextAt, row.WaitingAt = d.Schedule, micros(d.Next(fromMicros(row.CursorAt))), 0
		}
		if d != nil {
			row.Name, row.Hash, row.Stripe = name, d.Hash, d.Stripe
		}
		row.Config = config
		changed = append(changed, row)
	}
	if err := upsert(t, "{jobs}", changed); err != nil {
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

// overtaken is the row for the first due time that an edit found undecided. How many more there were is unknown: only the old
// schedule tells, and it is not kept.
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

func (m poolModel) differs(d *ledger.PoolDef) bool {
	if d == nil {
		return m.Hash != ""
	}
	return m.Hash != d.Hash || m.MaxRunning != d.MaxRunning || jobs.Rate(m.Rate) != d.Rate || m.Burst != d.Burst || !keysOf(m.rules()).equal(keysOf(d.KeyRules())) || !maps.Equal(m.KeyFair.is, weightsOf(d.Fair)) || m.MaxAttempts != d.MaxAttempts || m.LostLimit != cmp.Or(d.LostLimit, limits.Losses) || m.OnLost != string(onLost(d.Retry)) ||
		!reflect.DeepEqual(m.Kinds.is, handled{d.Hash, d.Kinds})
}

// other is the definition that governs, for a replica that has loaded another one for the pool.
func (m poolModel) other(name string) ledger.OtherPool {
	o := ledger.OtherPool{Name: name, Hash: m.Hash}
	if m.Hash == "" {
		return o
	}
	o.MaxRunning, o.Rate, o.ByKey = m.MaxRunning, jobs.Rate(m.Rate), m.keys() != nil
	if m.Kinds.is.Hash == m.Hash { // else a program that writes no kinds wrote the row
		o.Kinds = m.Kinds.is.Kinds
	}
	return o
}

func onLost(retry bool) jobs.OnLost {
	if retry {
		return jobs.LostRetries
	}
	return jobs.LostFails
}

// writePools writes defs to the rows of the named pools.
func (t *tx) writePools(config int64, names []string, defs map[string]*ledger.PoolDef) error {
	rows, err := defined[poolModel](t, names, "{for_update}")
	if err != nil {
		return err
	}
	now, err := t.Now()
	if err != nil {
		return err
	}
	var changed []poolModel
	for _, name := range names {
		row, d := rows[name], defs[name]
		if !row.differs(d) {
			continue
		}
		before := row.limits()
		if d == nil {
			row.Hash = ""
		} else {
			keys := row.perKey()
			row.Name = name
			row.setKeys(d.KeyRules())
			if err := t.changeKeys(&row, keys, now); err != nil {
				return err
			}
			row.Hash, row.MaxRunning, row.MaxAttempts, row.OnLost = d.Hash, d.MaxRunning, d.MaxAttempts, string(onLost(d.Retry))
			row.LostLimit = cmp.Or(d.LostLimit, limits.Losses)
			row.Rate, row.Burst, row.Kinds.is = storedRate(d.Rate), d.Burst, handled{d.Hash, d.Kinds}
			row.BucketFullAt = before.Converted(row.BucketFullAt, now, row.limits())
		}
		row.Config = config
		changed = append(changed, row)
	}
	return upsert(t, "{pools}", changed)
}

// defined reads all rows of {jobs} or {pools}, or those with the given names, which must be sorted; lock ends the statement about
// these.
func defined[M interface{ id() string }](t *tx, names []string, lock string) (map[string]M, error) {
	q := table[M](t)
	if len(names) > 0 {
		q = q.Where("name IN ?", names).Order("name" + lock)
	}
	all := map[string]M{}
	err := each(rowsOf(q), func(m *M) { all[(*m).id()] = *m })
	return all, err
}

// upsert writes whole rows of a table, whether they exist or not.
func upsert[M any](t *tx, table string, all []M) error {
	model := modelOf(new(M))
	return t.Upsert(table+" ("+columnsOf(new(M))+")", strings.Join(model.PrimaryFieldDBNames, ", "), sqlkit.Rows(all, func(m M) []any {
		row := make([]any, len(model.DBNames))
		for i, name := range model.DBNames {
			row[i] = model.FieldsByDBName[name].ReflectValueOf(t.Ctx, reflect.ValueOf(m)).Interface()
			of, is := row[i].(driver.Valuer)
			switch v := reflect.ValueOf(row[i]); {
			case v.Kind() == reflect.Pointer && v.IsNil():
				row[i] = nil
			case is:
				row[i], _ = of.Value() // strings and rates always encode
			case v.Kind() == reflect.Int64:
				row[i] = v.Int()
			}
		}
		return row
	}))
}
