package store

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func (m jobModel) differs(d *ledger.JobDef) bool {
	if d == nil {
		return m.Hash != ""
	}
	return m.Hash != d.Hash || m.Schedule != d.Schedule || m.Stripe != d.Stripe || m.SuspendAfter != d.SuspendAfter
}

// unwritten reports whether the row or its history lacks something of a definition.
func (m jobModel) unwritten(d *ledger.JobDef) bool {
	return m.differs(d) || d != nil && m.Defined != d.Hash
}

// writeJobs writes defs to the rows of the named jobs. The cursor never moves back. Where the schedule is new it moves to now,
// as judge takes it: an edit fires nothing of the past. What was due by the old schedule and was not decided yet gets its rows, see ledger.Overtaken. Pending tasks of jobs
// that are retired are cancelled, and their orders, at most sqlkit.MaxRows of them: then more may be left.
func (t *tx) writeJobs(config int64, names []string, defs map[string]*ledger.JobDef, all ledger.Definitions, judge ledger.Judge) (more bool, err error) {
	rows, err := defined[jobModel](t, names, "{for_update}")
	if err != nil {
		return false, err
	}
	now, err := t.judged(judge)
	if err != nil {
		return false, err
	}
	queued, err := t.withQueued(rows)
	if err != nil {
		return false, err
	}
	var changed []jobModel
	former, err := t.formerDefinitions(names, rows, defs)
	if err != nil {
		return false, err
	}
	var undecided []jobs.Trigger
	history := history{now: now, config: config, shown: all.Shown}
	var retired []string
	for _, name := range names {
		row, d := rows[name], defs[name]
		if !row.unwritten(d) {
			continue // written or removed by another process in the meantime
		}
		if row.reschedules(d) {
			due, _ := row.due()
			by, err := t.definitionID(cmp.Or(row.Defined, row.Hash))
			if err != nil {
				return false, err
			}
			for _, g := range all.Overtaken(ledger.Overtaken{
				Job: name, Definition: former[name], Suspension: row.suspension(), Cursor: fromMicros(row.CursorAt), Due: due, Now: now, Removed: d == nil,
			}) {
				g.Definition, g.Config = by, config
				undecided = append(undecided, g)
			}
		}
		history.replace(name, row, d)
		switch {
		case d == nil: // retired; when it comes back, its schedule is new
			row.Hash, row.Schedule, row.NextAt, row.DueAt, row.WaitingAt, row.Defined = "", "", 0, 0, 0, ""
			retired = append(retired, name)
		case row.Name == "" || row.Schedule != d.Schedule:
			row.CursorAt, row.Schedule = max(row.CursorAt, micros(now)), d.Schedule
			row.expect(d)
			if queued[name] {
				next, waiting := ledger.QueuedNext(fromMicros(row.DueAt), fromMicros(row.NextAt), now)
				row.NextAt, row.DueAt, row.WaitingAt = micros(next), 0, micros(waiting)
			}
		case row.WaitingAt == 0 && (row.DueAt != 0 || d.Due != nil): // the jitter may be another one
			row.expect(d)
		}
		if d != nil {
			row.Name, row.Hash, row.Stripe, row.Defined, row.SuspendAfter = name, d.Hash, d.Stripe, d.Hash, d.SuspendAfter
		}
		row.Config = config
		changed = append(changed, row)
	}
	if err := upsert(t, "{jobs}", changed); err != nil {
		return false, err
	}
	if err := t.endOrders(retired, now); err != nil {
		return false, err
	}
	if err := history.write(t); err != nil {
		return false, err
	}
	if _, err := t.insertTriggers(undecided, measured{}); err != nil {
		return false, err
	}
	if err := t.happened(now, missed(undecided)); err != nil {
		return false, err
	}
	n, err := t.endRetired(retired, sqlkit.MaxRows)
	return n == sqlkit.MaxRows, err
}

// withQueued are the jobs of which a run waits for a slot. The rows of jobs that are not retired say when none does.
//
// Index: tasks_job.
func (t *tx) withQueued(rows map[string]jobModel) (queued map[string]bool, err error) {
	var names []string
	for name, row := range rows {
		if row.WaitingAt != 0 || row.Hash == "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	found, err := column[string](t.rows("SELECT job FROM {tasks}{index}{tasks}_job{end} WHERE job>'' AND {in name job} AND state+0=5 GROUP BY job", sqlkit.Keys(sqlkit.Distinct(names))))
	queued = map[string]bool{}
	for _, name := range found {
		queued[name] = true
	}
	return queued, err
}

// reschedules reports whether d replaces a schedule, or removes the job.
func (m jobModel) reschedules(d *ledger.JobDef) bool {
	return m.Schedule != "" && (d == nil || m.Schedule != d.Schedule)
}

// formerDefinitions are those in the history of the jobs whose schedules are replaced.
//
// Index: primary key.
func (t *tx) formerDefinitions(names []string, rows map[string]jobModel, defs map[string]*ledger.JobDef) (map[string]json.RawMessage, error) {
	var replaced []jobModel
	for _, name := range names {
		if row := rows[name]; row.reschedules(defs[name]) && row.Defined != "" {
			replaced = append(replaced, row)
		}
	}
	if len(replaced) == 0 {
		return nil, nil
	}
	all := map[string]json.RawMessage{}
	err := each(t.rows("SELECT job, body FROM {definitions}{by_key} WHERE {in name job, name hash}",
		sqlkit.Rows(replaced, func(m jobModel) []any { return []any{m.Name, m.Defined} })), func(m *definitionModel) { all[m.Job] = m.Body })
	return all, err
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
