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
	due     time.Time
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
	return list(t.rows("SELECT name, hash, cursor_at, next_at, waiting_at, due_at, fence, suspended, suspended_until, skip_next, skip_by, busy_until FROM {jobs}{by_key} WHERE "+
		where+" ORDER BY name"+lock, args...), func(m *jobModel) *jobRow {
		r := &jobRow{due: fromMicros(m.DueAt), next: fromMicros(m.NextAt), waiting: fromMicros(m.WaitingAt)}
		r.Name, r.Hash, r.Fence, r.Suspension, r.SkipNext, r.SkipBy = m.Name, m.Hash, m.Fence, m.suspension(), m.SkipNext, m.SkipBy
		r.Cursor, r.BusyUntil = fromMicros(m.CursorAt), fromMicros(m.BusyUntil)
		return r
	})
}

// saveJobs writes the changed ones in one statement. The rows are locked, so they exist: the INSERT
// always ends as an update of the last seven columns.
func (t *tx) saveJobs(rows []*jobRow) error {
	var values [][]any
	for _, r := range rows {
		if r.changed {
			values = append(values, []any{r.Name, 0, "", "", 0, micros(r.Cursor), micros(r.next), micros(r.waiting), micros(r.due), r.Fence, r.SkipNext, micros(r.BusyUntil)})
		}
	}
	return t.Upsert("{jobs} (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, due_at, fence, skip_next, busy_until)", "name", values,
		"cursor_at", "next_at", "waiting_at", "due_at", "fence", "skip_next", "busy_until")
}

func findJob(rows []*jobRow, name string) (*jobRow, bool) {
	i, ok := slices.BinarySearchFunc(rows, name, func(r *jobRow, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return nil, false
	}
	return rows[i], true
}

// lockFree locks those of n rows that no other transaction has locked, and leaves out the rest. If others have all of them, it
// waits for the first one without holding any, and then tries all again. Transactions that waited while they hold some would run
// one after the other, and a transaction takes as long as its answers do.
func lockFree[R any](n int, read func(lock string) ([]R, error)) ([]R, error) {
	if n == 0 {
		return nil, nil
	}
	rows, err := read("{for_update}{skip_locked}")
	if err == nil && len(rows) == 0 {
		rows, err = read(" LIMIT 1{for_update}")
		if err == nil && len(rows) > 0 && n > 1 {
			rows, err = read("{for_update}{skip_locked}")
		}
	}
	return rows, err
}

// lockFreeJobs locks the free ones of those jobs that exist, and whose next due time has come by dueBy, if that is
// not zero. The rows are sorted by name; busy are the others.
//
// Index: primary key.
func (t *tx) lockFreeJobs(names []string, dueBy time.Time) (rows []*jobRow, busy []string, err error) {
	names = sqlkit.Distinct(names)
	rows, err = lockFree(len(names), func(lock string) ([]*jobRow, error) { return t.selectJobs(names, dueBy, lock) })
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	return rows, without(names, rows), nil
}

// tryLockFreeJobs is lockFreeJobs without waiting: all may be busy.
//
// Index: primary key.
func (t *tx) tryLockFreeJobs(names []string) (rows []*jobRow, busy []string, err error) {
	names = sqlkit.Distinct(names)
	rows, err = t.selectJobs(names, time.Time{}, "{for_update}{skip_locked}")
	return rows, without(names, rows), err
}

func without(names []string, rows []*jobRow) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		_, found := findJob(rows, name)
		return found
	})
}

// lockFreeStripes locks the free ones of the jobs' stripes, and returns the jobs in them, and the others.
//
// Index: primary key of stripes.
func (t *tx) lockFreeStripes(names []string) (mine, busy []string, err error) {
	var stripes []int
	for _, name := range names {
		stripes = append(stripes, ledger.Stripe(name))
	}
	stripes = sqlkit.Distinct(stripes)
	locked, err := lockFree(len(stripes), func(lock string) ([]int, error) {
		return column[int](t.rows("SELECT stripe FROM {stripes}{by_key} WHERE {in int stripe} ORDER BY stripe"+lock, sqlkit.Rows(stripes, func(n int) []any { return []any{n} })))
	})
	for _, name := range names {
		if len(locked) == 0 || slices.Contains(locked, ledger.Stripe(name)) { // without such rows there is no guard
			mine = append(mine, name)
		} else {
			busy = append(busy, name)
		}
	}
	return mine, busy, err
}
