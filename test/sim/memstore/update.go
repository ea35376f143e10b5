package memstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// UpdateTask changes a pending task of a pool. Errors: jobs.ErrInvalid, jobs.ErrNotFound, jobs.ErrConflict.
func (s *Store) UpdateTask(ctx context.Context, id string, c wire.TaskChange) (task jobs.Task, err error) {
	payload, err := c.Encode()
	if err == nil && c.None() {
		err = fmt.Errorf("nothing to change: %w", jobs.ErrInvalid)
	}
	if err != nil {
		return task, err
	}
	err = s.tx(ctx, "update task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		switch {
		case !open:
			return t.notOpen(id)
		case row.Job != "":
			return fmt.Errorf("task %s belongs to job %s: %w", id, row.Job, jobs.ErrConflict)
		case row.State == Running:
			return fmt.Errorf("task %s is running: %w", id, jobs.ErrConflict)
		}
		if err := c.Fits(row.task(), t.now()); err != nil {
			return err
		}
		now := micros(t.now())
		if row.State == Locked && (c.RunAt != nil || c.Priority != nil || c.Payload != nil) {
			row.State = Ready
			t.forgetWaits(id)
		}
		if c.RunAt != nil {
			row.RunAt, row.State = max(micros(*c.RunAt), now), Ready
			if row.RunAt > now {
				row.State = Waits
			}
		}
		if row.State != Locked && row.ReasonCode == reason.WaitsForLock || row.waitsForKey() && (c.RunAt != nil || c.Priority != nil || c.Payload != nil) {
			row.Reason, row.ReasonCode = "", ""
		}
		if c.ExpiresAt != nil {
			row.ExpiresAt = micros(*c.ExpiresAt)
		}
		if c.Priority != nil {
			row.Rank = -*c.Priority
		}
		if c.Payload != nil {
			row.Payload = payload
		}
		if c.Tags != nil {
			row.Tags = encodeTags(*c.Tags)
		}
		if c.MaxAttempts != nil {
			row.OwnAttempts = *c.MaxAttempts
			row.MaxAttempts = cmp.Or(row.OwnAttempts, t.pools.rows[row.Pool].MaxAttempts)
		}
		if c.Timeout != nil {
			row.OwnTimeout = time.Duration(*c.Timeout).Microseconds()
		}
		if c.Backoff != nil {
			row.OwnBackoff = time.Duration(*c.Backoff).Microseconds()
		}
		t.changeUnique(id, row.Token)
		row.Token++
		put(t, &t.tasks, row)
		task = row.task()
		return nil
	})
	return task, err
}
