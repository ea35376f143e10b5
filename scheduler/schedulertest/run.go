package schedulertest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// stuckAfter is how long tasks may be due while none runs before the test fails.
const stuckAfter = 5 * time.Second

// Drain runs tasks until none is due or running, those that are enqueued meanwhile included, and
// notifications of what failed. It returns the tasks that ended, in the order in which they were made.
// What waits for its time or for another attempt stays in Pending. No schedule fires.
//
// The test fails at once if a task is due whose kind the set has no handler for, and after 5 s if nothing in the
// set can run it otherwise.
func (b *Bench) Drain() []jobs.Task {
	b.t.Helper()
	b.run(job{})
	return b.ended()
}

// Fire runs a job now, as `scheduler jobs run` does, and drains. The job's own task comes first in
// what it returns, unless it waits for another attempt.
func (b *Bench) Fire(name string) []jobs.Task {
	b.t.Helper()
	b.run(job{name: name})
	return b.ended()
}

// FireAt runs a job as if its due time at had come, and drains: the handler gets at as ScheduledAt, and
// the idempotency key of that due time. The test fails if at is not a due time of the job's schedule.
// The clock stays as it is, so at may be in the past or in the future.
func (b *Bench) FireAt(name string, at time.Time) []jobs.Task {
	b.t.Helper()
	if err := b.isDue(name, at); err != nil {
		b.t.Fatal(err)
	}
	b.run(job{name, at.UTC()})
	return b.ended()
}

// RunUntil runs the set until at, and what is due then: schedules fire, waiting tasks start, and failed
// ones are retried, each at its time. It returns the tasks that ended, in the order in which they
// were made. It takes real time outside of a synctest bubble.
func (b *Bench) RunUntil(at time.Time) []jobs.Task {
	b.t.Helper()
	for {
		b.work(b.opt.Store.Sides().Replica, job{})
		next := b.next()
		if next.IsZero() || next.After(at) {
			break
		}
		time.Sleep(max(time.Until(next), time.Millisecond))
	}
	if rest := time.Until(at); rest > 0 {
		time.Sleep(rest)
	}
	return b.ended()
}

// job is one to be run besides what is due: none without a name; for due time at, unless that is zero.
type job struct {
	name string
	at   time.Time
}

// run works until nothing is due, on a store that reports no due times.
func (b *Bench) run(j job) {
	b.t.Helper()
	b.work(still{b.opt.Store.Sides().Replica, j.at}, j)
}

// work runs a replica until nothing is due, and ends it.
func (b *Bench) work(st ledger.Store, j job) {
	b.t.Helper()
	if now := time.Now(); now.Before(b.made.AddDate(0, 0, -1)) {
		b.t.Fatalf("schedulertest: it is %s, and the Bench was made at %s: make it inside the synctest bubble that it is used in",
			now.Format(time.DateOnly), b.made.Format(time.DateOnly))
	}
	set := b.set
	if b.opt.Scheduler.Workers == 1 {
		set = set.Wrap(oneAtATime())
	}
	s, err := scheduler.New(ledger.Sides{Replica: st}, nil, set, b.opt.Scheduler)
	if err != nil {
		b.t.Fatalf("schedulertest: the set cannot run:\n%v", err)
	}
	ctx, stop := context.WithCancel(b.ctx())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	err = b.idle(ctx, st, s, j, ended)
	stop()
	if left := <-ended; err == nil {
		err = left
	}
	if err != nil {
		b.t.Fatalf("schedulertest: %v", err)
	}
}

// oneAtATime is for notifications, which have workers of their own beside the replica's. Handlers wait on a
// channel: a synctest bubble sees that, unlike a wait on a mutex.
func oneAtATime() func(jobs.Handler) jobs.Handler {
	turn := make(chan struct{}, 1)
	return func(next jobs.Handler) jobs.Handler { return inTurn{turn, next} }
}

type inTurn struct {
	turn chan struct{}
	next jobs.Handler
}

func (h inTurn) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	return h.next.Run(ctx, t, out)
}

// idle waits until the replica has started, runs j, and waits until nothing is due. It looks less and
// less often: handlers may sleep for hours, and in a bubble such a sleep costs nothing but the looks.
func (b *Bench) idle(ctx context.Context, st ledger.Store, s *scheduler.Scheduler, j job, ended chan error) error {
	began, moved, last := time.Now(), time.Now(), 0
	s.Wake()
	for {
		select {
		case err := <-ended: // it could not start
			ended <- err
			return err
		case <-time.After(min(max(time.Since(began)/16, 100*time.Microsecond), 5*time.Second)):
		}
		if !started(s) {
			continue
		}
		if j.name != "" {
			if _, _, err := s.RunJob(ctx, j.name, "schedulertest", ""); err != nil {
				return err
			}
			j.name = ""
		}
		running, due, err := left(ctx, st)
		switch {
		case err != nil:
			return err
		case running+due == 0:
			return nil
		case due > 0:
			s.Wake()
		}
		if running > 0 || due != last {
			moved, last = time.Now(), due
		} else if time.Since(moved) > stuckAfter {
			return b.stuck(ctx)
		}
	}
}

func started(s *scheduler.Scheduler) bool {
	for _, c := range s.Health() {
		if c.Name == "store" {
			return c.Ready
		}
	}
	return false
}

// stuck is the error that says what is due and does not start.
func (b *Bench) stuck(ctx context.Context) error {
	var rows strings.Builder
	for _, t := range b.tasks(ctx, jobs.StatePending) {
		if !t.RunAt.After(time.Now()) {
			fmt.Fprintf(&rows, "\n\ttask %s of pool %s, kind %q, job %q", t.ID, t.Pool, t.Kind, t.Job)
		}
	}
	return fmt.Errorf("nothing in the set runs what is due; is there a handler for its kind, and do the labels match?%s", &rows)
}
