package triggers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// RunJobAt orders a run of a job; see Scheduler.RunJobAt.
func (t *Triggers) RunJobAt(ctx context.Context, name string, run jobs.NewRun, at time.Time) (wire.Order, error) {
	j, known := t.plan.Load().Jobs[name]
	if !known {
		return wire.Order{}, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
	}
	if run.Force != "" {
		return wire.Order{}, &jobs.FieldError{Path: "force", Problem: "is about the attempt that is in the way now; a run at a later time finds what is in its way then"}
	}
	if _, err := payloadOf(j, run); err != nil {
		return wire.Order{}, fmt.Errorf("run job %q: %w", name, err)
	}
	payload, err := run.Encode() // the job's own is that which it has then
	if err != nil {
		return wire.Order{}, fmt.Errorf("run job %q: %w", name, err)
	}
	return t.order(ctx, j, ledger.Order{Job: name, Kind: wire.OrderRun, By: run.By, Asked: ledger.Asked{At: at.UTC().Truncate(time.Millisecond), Payload: payload}})
}

// order keeps an order.
func (t *Triggers) order(ctx context.Context, j *plan.Job, o ledger.Order) (wire.Order, error) {
	o.ID = uuid.Must(uuid.NewV7()).String()
	added, err := t.store.AddOrder(ctx, o, j.Hash)
	switch {
	case err == nil:
		t.log.Info("ordered", "job", o.Job, "order", o.ID, "kind", o.Kind, "by", o.By, "at", o.Asked.At)
		t.orders.expect(added.NextAt)
		t.Wake()
		return added.View(nil), nil
	case errors.Is(err, jobs.ErrConflict) && t.replacing.Load():
		err = notNow("the configuration is being replaced; ask again")
	case errors.Is(err, jobs.ErrUnavailable):
		t.member.StoreFailed(err)
	}
	return wire.Order{}, err
}

// Backfill orders runs of past due times of a job; see Scheduler.Backfill.
func (t *Triggers) Backfill(ctx context.Context, name, by string, b wire.NewBackfill) (wire.Order, error) {
	j, due, err := t.pastDue(name, &b)
	if err != nil {
		return wire.Order{}, err
	}
	return t.order(ctx, j, ledger.Order{
		Job: name, Kind: wire.OrderBackfill, By: by, Asked: ledger.Asked{Backfill: &b, Schedule: j.ScheduleHash(), DueTimes: len(due)},
	})
}

// PreviewBackfill says what Backfill would do.
func (t *Triggers) PreviewBackfill(ctx context.Context, name string, b wire.NewBackfill) (wire.BackfillPreview, error) {
	_, due, err := t.pastDue(name, &b)
	if err != nil {
		return wire.BackfillPreview{}, err
	}
	ran, err := t.store.Ran(ctx, name, b.From, b.To, 2*ledger.MostBackfilled)
	if err != nil {
		return wire.BackfillPreview{}, err
	}
	v := wire.BackfillPreview{NewBackfill: b, DueTimes: len(due), First: due[0], Last: due[len(due)-1]}
	for _, at := range due {
		if _, has := slices.BinarySearchFunc(ran, at, time.Time.Compare); has {
			v.Ran++
		}
	}
	return v, nil
}

// pastDue are the due times that a backfill is about, and fills in what b leaves out.
func (t *Triggers) pastDue(name string, b *wire.NewBackfill) (*plan.Job, []time.Time, error) {
	j, known := t.plan.Load().Jobs[name]
	if !known {
		return nil, nil, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
	}
	wrong := func(field, format string, args ...any) (*plan.Job, []time.Time, error) {
		return nil, nil, fmt.Errorf("backfill of job %q: %w", name, &jobs.FieldError{Path: field, Problem: fmt.Sprintf(format, args...)})
	}
	b.From, b.To = b.From.UTC().Truncate(time.Microsecond), b.To.UTC().Truncate(time.Microsecond)
	if b.MaxRunning == 0 {
		b.MaxRunning = 1
	}
	if b.To.IsZero() {
		b.To = t.clock.Now().UTC().Truncate(time.Microsecond)
	}
	switch {
	case b.From.IsZero():
		return wrong("from", "is missing: the first time to look for due times of the job")
	case !b.From.Before(b.To):
		return wrong("to", "must be after from, which is %s", second(b.From))
	case b.To.After(t.clock.Now()):
		return wrong("to", "is in the future, by the database's time; a backfill is of past due times")
	case b.MaxRunning < 1 || b.MaxRunning > ledger.MostBackfilling:
		return wrong("max_running", "must be 1 to %d", ledger.MostBackfilling)
	case j.Times == nil:
		return wrong("from", "the job has no schedule, so no due time has passed: run it with 'scheduler jobs run %s'", name)
	}
	if _, err := jobs.ParseRate(b.Rate.String()); err != nil {
		return wrong("rate", "%v", err)
	}
	until := b.To.Add(-time.Nanosecond)
	due, more := j.Times.Between(b.From.Add(-time.Nanosecond), until, ledger.MostBackfilled)
	if more {
		return wrong("to", "the job was due more than %d times since from; order several backfills of shorter times", ledger.MostBackfilled)
	}
	if len(due) == 0 {
		return wrong("from", "by its schedule the job was not due from %s to %s", second(b.From), second(b.To))
	}
	return j, due, nil
}
