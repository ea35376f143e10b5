package schedulertest

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// left counts what runs, and what is due: tasks in pools that are not paused, jobs, and events that
// may have a notification. When no task runs or is ready, counted in one statement, nothing can enqueue
// more; so what is read after that is only what became due with time, and events. Events
// become tasks, which the second count finds.
func left(ctx context.Context, st ledger.Store) (running, due int, err error) {
	if running, due, err = tasks(ctx, st); err != nil || running+due > 0 {
		return running, due, err
	}
	if due, err = events(ctx, st); err != nil || due > 0 {
		return 0, due, err
	}
	ready, err := st.Ready(ctx, asIs) // which makes waiting tasks ready
	if err != nil || len(ready.Pools) > 0 {
		return 0, len(ready.Pools), err
	}
	soon, err := upcoming(ctx, st)
	if err != nil || !soon.IsZero() && !soon.After(time.Now()) {
		return 0, 1, err
	}
	return tasks(ctx, st)
}

// asIs believes the database's clock.
func asIs(database time.Time) (time.Time, error) { return database, nil }

// tasks counts tasks that run and that are due. It fails at once if the set has no handler for one that is due.
func tasks(ctx context.Context, st ledger.Store) (running, due int, err error) {
	pools, err := st.Pools(ctx)
	for _, p := range pools {
		running += p.Running
		if p.Paused != nil && *p.Paused {
			continue
		}
		due += p.Pending
		for _, u := range p.Unrunnable {
			return 0, 0, &jobs.KindError{Pool: p.Name, Kind: u.Kind, Kinds: p.Kinds, Waits: true}
		}
	}
	return running, due, err
}

// events counts those that wait to be routed, and takes none. An event whose definition no configuration has is
// not counted.
func events(ctx context.Context, st ledger.Store) (n int, err error) {
	_, err = st.Notify(ctx, ledger.Notify{Limit: 500, Route: func(_ time.Time, e ledger.Event) ledger.Route {
		if e.Hash != "" {
			n++
		}
		return ledger.Route{Keep: true}
	}})
	return n, err
}

// upcoming is the next due time of any job; zero if there is none.
func upcoming(ctx context.Context, st ledger.Store) (next time.Time, err error) {
	stripes := make([]int, ledger.Stripes)
	for i := range stripes {
		stripes[i] = i
	}
	all, err := st.Upcoming(ctx, stripes)
	for _, u := range all {
		next = sooner(next, u.NextAt)
	}
	return next, err
}

// next is when there is something to do again; zero: never.
func (b *Bench) next() time.Time {
	b.t.Helper()
	due, err := upcoming(b.ctx(), b.opt.Store.Sides().Replica)
	if err != nil {
		b.t.Fatal(err)
	}
	ready, err := b.opt.Store.Sides().Replica.Ready(b.ctx(), asIs)
	if err != nil {
		b.t.Fatal(err)
	}
	return sooner(due, ready.Next)
}

// sooner is the earlier of two times, where zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// isDue reports whether at is a due time of the job's schedule.
func (b *Bench) isDue(name string, at time.Time) error {
	j, known := b.set.Jobs[name]
	if !known {
		return fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
	}
	schedule, err := b.set.Compiler().Compile(name, j)
	if err != nil {
		return fmt.Errorf("job %q: %w", name, err)
	}
	if len(j.Specs()) == 0 {
		return fmt.Errorf("job %q has no schedule; use Fire", name)
	}
	if next := schedule.Next(at.Add(-time.Nanosecond)); !next.Equal(at) {
		return fmt.Errorf("job %q is not due at %s; its next due time is %s", name, at.Format(time.RFC3339), next.Format(time.RFC3339))
	}
	return nil
}

// still is a store that reports no due times: no schedule fires. A manual run becomes the run of
// due time at, unless that is zero.
type still struct {
	ledger.Store
	at time.Time
}

func (still) Upcoming(context.Context, []int) ([]ledger.Upcoming, error) { return nil, nil }

func (still) Overdue(context.Context, time.Time, int) ([]ledger.Upcoming, error) { return nil, nil }

func (s still) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	if s.at.IsZero() {
		return s.Store.Decide(ctx, d)
	}
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for _, decision := range decisions {
			for i := range decision.Triggers {
				o := &decision.Triggers[i]
				if o.Task == nil {
					continue // skipped: the slot is taken
				}
				o.Trigger.At, o.Trigger.Seq, o.Trigger.Cause = s.at, 0, jobs.CauseSchedule
				o.Task.ScheduledAt, o.Task.Seq = s.at, 0
			}
		}
		return decisions
	}
	decided, err := s.Store.Decide(ctx, d)
	if err == nil && (len(decided.Decisions) == 0 || len(decided.Decisions[0].Triggers) == 0) {
		err = fmt.Errorf("%w: the due time %s was decided before", jobs.ErrConflict, s.at.Format(time.RFC3339))
	}
	return decided, err
}
