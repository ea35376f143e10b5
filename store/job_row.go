package store

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// jobRow is a row of {jobs} under this transaction's lock.
type jobRow struct {
	ledger.JobState
	next    time.Time
	waiting time.Time
	changed bool // saveJobs writes it
}

func (r *jobRow) name() string { return r.Name }

// lockJobs locks the rows of those jobs that exist, sorted by name.
//
// Index: primary key.
func (t *tx) lockJobs(names []string) ([]*jobRow, error) {
	return t.selectJobs(sqlkit.Distinct(names), time.Time{}, "{for_update}")
}

// selectJobs reads the rows of those jobs that exist, and whose next due time has come by dueBy, if that is
// not zero, sorted by name; lock ends the statement.
func (t *tx) selectJobs(names []string, dueBy time.Time, lock string) ([]*jobRow, error) {
	where, args := "{in name name}", []any{sqlkit.Keys(names)}
	if !dueBy.IsZero() {
		where, args = where+" AND next_at>0 AND next_at<=?", append(args, micros(dueBy))
	}
	return list(t.rows("SELECT name, hash, cursor_at, next_at, waiting_at, fence, suspended, busy_until FROM {jobs}{by_key} WHERE "+
		where+" ORDER BY name"+lock, args...), func(m *jobModel) *jobRow {
		r := &jobRow{next: fromMicros(m.NextAt), waiting: fromMicros(m.WaitingAt)}
		r.Name, r.Hash, r.Fence, r.Suspended = m.Name, m.Hash, m.Fence, m.Suspended
		r.Cursor, r.BusyUntil = fromMicros(m.CursorAt), fromMicros(m.BusyUntil)
		return r
	})
}

// saveJobs writes the changed ones in one statement. The rows are locked, so they exist: the INSERT
// always ends as an update of the last five columns.
func (t *tx) saveJobs(rows []*jobRow) error {
	var values [][]any
	for _, r := range rows {
		if r.changed {
			values = append(values, []any{r.Name, 0, "", "", 0, micros(r.Cursor), micros(r.next), micros(r.waiting), r.Fence, micros(r.BusyUntil)})
		}
	}
	return t.Upsert("{jobs} (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, fence, busy_until)", "name", values,
		"cursor_at", "next_at", "waiting_at", "fence", "busy_until")
}

func findJob(rows []*jobRow, name string) (*jobRow, bool) {
	i, ok := slices.BinarySearchFunc(rows, name, func(r *jobRow, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return nil, false
	}
	return rows[i], true
}
