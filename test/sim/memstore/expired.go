package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// EndExpired implements ledger.Tasks.
func (s *Store) EndExpired(ctx context.Context, judge ledger.Judge, limit int) (ended []jobs.Task, next time.Time, err error) {
	err = s.tx(ctx, "end expired tasks", func(t *tx) error {
		ended, next = nil, time.Time{}
		asks := false
		for _, r := range t.tasks.rows {
			asks = asks || r.State == Waits || r.expires()
		}
		if !asks {
			return nil
		}
		now, err := judge(t.now())
		if err != nil {
			return err
		}
		if due := t.promote(micros(now)); !due.After(now) {
			next = due
		}
		var rows []Task
		for _, r := range t.tasks.rows {
			if r.expires() {
				rows = append(rows, r)
			}
		}
		slices.SortFunc(rows, func(a, b Task) int { return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.ID, b.ID)) })
		var ends []happening
		for len(rows) > 0 && len(ended) < limit && ledger.Expired(rows[0].task(), now) {
			r := rows[0]
			task, end := t.move(now, move{
				row: r, to: toDone, end: jobs.StateCancelled, reason: ledger.EndOfExpired(r.task()), code: reason.Expired, failure: r.Error, exit: r.ExitCode,
			})
			if ended, rows = append(ended, task), rows[1:]; end != nil {
				ends = append(ends, *end)
			}
		}
		if len(rows) > 0 && (next.IsZero() || rows[0].ExpiresAt < micros(next)) {
			next = fromMicros(rows[0].ExpiresAt)
		}
		return t.happened(now, ends)
	})
	return ended, next, err
}

// expires reports whether a pending task ends when its time comes, and does not end to wait before.
func (r Task) expires() bool {
	return r.ExpiresAt > 0 && r.Attempt == 0 && r.State != Running && (r.State != Waits || r.ExpiresAt <= r.RunAt)
}

// expiresOf is the path of expires_at of a task, in a list of that many.
func expiresOf(i, tasks int) string {
	if tasks > 1 {
		return fmt.Sprintf("[%d].expires_at", i)
	}
	return "expires_at"
}
