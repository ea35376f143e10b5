package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// subject has a standing: its kind is "job" or "pool".
type subject struct{ kind, name string }

func subjectOf(e ledger.Event) subject {
	if e.Job != "" {
		return subject{"job", e.Job}
	}
	return subject{"pool", e.Pool}
}

// ends are the events of moves that end a task: EventRecovered is any success, "" a cancellation. Of a pool's successes it has the first,
// as no further one makes a difference. A success that somebody is told of has an EventSucceeded besides.
func ends(moves []move) []ledger.Event {
	var all []ledger.Event
	succeeded := map[string]bool{}
	for i := range moves {
		m := &moves[i]
		if m.to != toDone || m.Job == "" && m.Pool == naming.NotificationsPool { // notifications make no notification
			continue
		}
		e := ledger.Event{Seq: m.Seq, Notification: jobs.Notification{
			Event: eventOf[m.end], Job: m.Job, Pool: m.Pool, ScheduledAt: m.ScheduledAt, Count: 1, TaskID: m.ID,
			Attempt: m.Attempt, Replica: m.Replica, Reason: m.reason, ReasonCode: m.code, Error: m.failure, At: m.ended,
		}}
		if m.tells && m.end == jobs.StateSucceeded {
			success := e
			success.Event = jobs.EventSucceeded
			all = append(all, success)
		}
		if m.Job == "" && m.end == jobs.StateSucceeded {
			if succeeded[m.Pool] {
				continue
			}
			succeeded[m.Pool] = true
		}
		all = append(all, e)
	}
	return all
}

var eventOf = map[jobs.State]jobs.Event{jobs.StateFailed: jobs.EventFailed, jobs.StateLost: jobs.EventLost, jobs.StateSucceeded: jobs.EventRecovered}

func good(e ledger.Event) bool { return e.Event == jobs.EventRecovered }
func bad(e ledger.Event) bool  { return e.Event != "" && !good(e) && !aside(e) }

// aside reports whether an event changes no standing: somebody has asked for it.
func aside(e ledger.Event) bool {
	return e.Event == jobs.EventStarted || e.Event == jobs.EventSucceeded
}

// weight is the sum of the events of one transaction for their subject.
type weight struct {
	good, bad     bool
	last, success int64 // when the last run ended, and the last one that succeeded
}

func (w *weight) add(e ledger.Event, at int64) {
	w.bad = w.bad || bad(e)
	w.last = max(w.last, at)
	if good(e) {
		w.good, w.success = true, max(w.success, at)
	}
}

// happened keeps the standings, and writes the event of each failed, missed or lost run. A success has an event
// only where a job or pool recovers, or where somebody is told of each. The events of one transaction count as simultaneous: if one of them
// is a failure, nothing recovered.
//
// A job's row is written with each end. A pool's is read without a lock, and written only when it
// changes: pools end thousands of tasks a second.
func (t *tx) happened(now time.Time, all []ledger.Event) error {
	weights := map[subject]weight{}
	for _, e := range all {
		if aside(e) {
			continue
		}
		if e.Job != "" || e.Event != "" { // a cancelled task does not change a pool's standing
			w := weights[subjectOf(e)]
			w.add(e, micros(happenedAt(e, now)))
			weights[subjectOf(e)] = w
		}
	}
	recovered, err := t.weigh(weights)
	if err != nil {
		return err
	}
	var events []ledger.Event
	for _, e := range all {
		if aside(e) || bad(e) || good(e) && recovered[subjectOf(e)] {
			events = append(events, e)
		}
		if good(e) {
			delete(recovered, subjectOf(e)) // one event for each subject
		}
	}
	return t.keepEvents(now, events)
}

// weigh writes the standings that change, and returns the subjects that recovered.
func (t *tx) weigh(weights map[subject]weight) (recovered map[subject]bool, err error) {
	var written []subject
	pools := map[string]bool{} // fails now
	for sub, w := range weights {
		if sub.kind == "job" {
			written = append(written, sub)
		} else {
			pools[sub.name] = w.bad
		}
	}
	changed, err := t.changedPools(pools)
	if err != nil {
		return nil, err
	}
	rows, err := t.lockStandings(append(written, changed...))
	if err != nil {
		return nil, err
	}
	recovered = map[subject]bool{}
	var values [][]any
	for _, row := range rows {
		w := weights[row.of()]
		recovered[row.of()] = row.Failing && w.good && !w.bad
		row.Failing = w.bad || row.Failing && !w.good
		if row.Kind == "job" {
			row.LastEndAt, row.LastSuccessAt = max(row.LastEndAt, w.last), max(row.LastSuccessAt, w.success)
		}
		values = append(values, []any{row.Kind, row.Name, bit(row.Failing), row.LastSuccessAt, row.LastEndAt})
	}
	// The rows are locked, so they exist: the INSERT always ends as an update.
	return recovered, t.Upsert("{standings} (kind, name, failing, last_success_at, last_end_at)", "kind, name", values)
}

// changedPools are the pools with a standing that differs from fails. A pool without a row does not fail.
//
// Index: primary key.
func (t *tx) changedPools(fails map[string]bool) (changed []subject, err error) {
	if len(fails) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(fails))
	failing := map[string]bool{}
	err = each(t.rows("SELECT name, failing FROM {standings} WHERE kind='pool' AND {in name name}", sqlkit.Keys(names)), func(m *standingModel) {
		failing[m.Name] = m.Failing
	})
	for _, name := range names {
		if failing[name] != fails[name] {
			changed = append(changed, subject{"pool", name})
		}
	}
	return changed, err
}

// lockStandings locks the rows of subjects, sorted, and makes those that are missing.
func (t *tx) lockStandings(subjects []subject) ([]standingModel, error) {
	slices.SortFunc(subjects, func(a, b subject) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	rows, err := t.standings(subjects)
	if err != nil || len(rows) == len(subjects) {
		return rows, err
	}
	var missing [][]any
	for _, sub := range subjects {
		if !slices.ContainsFunc(rows, func(m standingModel) bool { return m.of() == sub }) {
			missing = append(missing, []any{sub.kind, sub.name, 0})
		}
	}
	if _, err := t.InsertNew("{standings} (kind, name, failing)", missing); err != nil {
		return nil, err
	}
	return t.standings(subjects)
}

// standings reads and locks the rows that exist.
//
// Index: primary key.
func (t *tx) standings(subjects []subject) (rows []standingModel, err error) {
	for part := range slices.Chunk(subjects, sqlkit.MaxRows) {
		err := each(t.rows("SELECT kind, name, failing, last_success_at, last_end_at FROM {standings}{by_key} WHERE {in name kind, name name} ORDER BY kind, name{for_update}",
			sqlkit.Rows(part, func(s subject) []any { return []any{s.kind, s.name} })),
			func(m *standingModel) { rows = append(rows, *m) })
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}
