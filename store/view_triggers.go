package store

import (
	"context"
	"strconv"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Triggers lists ledger rows, latest due time first, and returns the cursor of the next page, ""
// after the last.
func (s *Store) Triggers(ctx context.Context, f wire.TriggerFilter) (triggers []jobs.Trigger, next string, err error) {
	return page(ctx, s, "triggers", f.Limit,
		func(t *tx, n int) ([]jobs.Trigger, error) { return t.triggerPage(f, n) },
		func(last jobs.Trigger) string { return triggerCursor(keyOf(last)) })
}

func (t *tx) triggerPage(f wire.TriggerFilter, n int) ([]jobs.Trigger, error) {
	after, err := readTriggerCursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	from, order := "{triggers} {walk}{triggers}_at{walked}", "at DESC, job DESC, seq DESC"
	switch {
	case f.Job != "" && f.Result != "":
		from, order = "{triggers} {walk}{triggers}_result{walked}", "at DESC, seq DESC"
	case f.Job != "":
		from, order = "{triggers} {walk}PRIMARY{walked}", "at DESC, seq DESC"
	case f.Outcome != "":
		from = "{triggers} {walk}{triggers}_outcome{walked}"
	case f.Result != "":
		from = "{triggers} {walk}{triggers}_ended{walked}"
	}
	return list(rowsOf(table[triggerModel](t).Table(from).Scopes(ofTriggers(f, after)).Order(order).Limit(n)), (*triggerModel).trigger)
}

// ofTriggers are the rows of a filter, behind one if it is not nil.
func ofTriggers(f wire.TriggerFilter, after *ledgerKey) func(*gorm.DB) *gorm.DB {
	return func(q *gorm.DB) *gorm.DB {
		q = q.Where(&triggerModel{Job: f.Job, Outcome: string(f.Outcome), Result: string(f.Result)}) // of these, those that are not empty
		// SQLite's indexes of these have no rows without them, and are used where a query says so.
		if f.Outcome != "" {
			q = q.Where("outcome > ''")
		}
		if f.Result != "" {
			q = q.Where("result > ''")
		}
		if !f.Since.IsZero() {
			q = q.Where("at >= ?", micros(f.Since))
		}
		if after != nil {
			// Not (at, job, seq) < (?, ?, ?): MySQL finds no range in it.
			q = q.Where("at <= ?", after.at).Where("NOT (at = ? AND (job > ? OR (job = ? AND seq >= ?)))", after.at, after.job, after.job, after.seq)
		}
		return q
	}
}

func triggerCursor(k ledgerKey) string {
	return paging.Cursor("trigger", strconv.FormatInt(k.at, 10), k.job, strconv.Itoa(k.seq))
}

// readTriggerCursor reads the cursor of a page; nil for the first page.
func readTriggerCursor(text string) (*ledgerKey, error) {
	after, err := readCursor(text, "trigger", 3)
	if err != nil || after == nil {
		return nil, err
	}
	at, err := strconv.ParseInt(after[0], 10, 64)
	seq, err2 := strconv.Atoi(after[2])
	if err != nil || err2 != nil {
		return nil, notOfList(text)
	}
	return &ledgerKey{after[1], at, seq}, nil
}
