package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// edge is what lies between one process and the store.
type edge struct {
	st    *memstore.Store
	index int // of the replica; -1: an outsider
	w     *world
	life  *life
}

func unavailable(why string) error { return fmt.Errorf("%w: simulated: %s", jobs.ErrUnavailable, why) }

// call makes one call of the store, or what the weather makes of it.
func call[T any](ctx context.Context, e *edge, act func(ctx context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // as the store does
	defer cancel()
	if !e.life.goOn() {
		return none, unavailable("dead")
	}
	if kind, _ := e.w.weather.strikes(e.index, storeDown, refuses); kind != "" {
		return none, unavailable("refused") // also where the way there is slow
	}
	kind, by := e.w.weather.strikes(e.index, loses, hangs, slows)
	after := false
	switch kind {
	case loses:
		_, _ = act(context.WithoutCancel(ctx))
		if e.w.weather.coin() {
			<-ctx.Done()
		}
		e.life.goOn()
		return none, unavailable("the answer was lost")
	case hangs:
		if e.w.weather.coin() { // what was sent arrives, when it arrives
			late := context.WithoutCancel(ctx)
			e.w.work.Go(func() {
				time.Sleep(by)
				_, _ = act(late)
			})
		}
		<-ctx.Done()
		e.life.goOn()
		return none, unavailable("no answer")
	case slows: // on the way there, or on the way back
		if after = e.w.weather.coin(); !after && !e.lasts(ctx, by) {
			return none, unavailable("too slow")
		}
	}
	got, err := act(ctx)
	if after && !e.lasts(ctx, by) {
		return none, unavailable("the answer was too slow")
	}
	if !e.life.goOn() {
		return none, unavailable("dead")
	}
	return got, err
}

// lasts lets time pass; false if the caller does not wait so long.
func (e *edge) lasts(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	case <-e.life.dead:
	}
	return true
}

// stalled makes a call whose transaction may wait for locks longer than its caller waits for it.
func stalled[T any](ctx context.Context, e *edge, act func(ctx context.Context) (T, error)) (T, error) {
	return call(ctx, e, func(ctx context.Context) (T, error) {
		type outcome struct {
			got T
			err error
		}
		if ctx.Err() != nil {
			return outcome{}.got, unavailable("too late")
		}
		if !e.w.weather.any(e.index, stalls) {
			return act(ctx)
		}
		done := make(chan outcome, 1)
		e.w.work.Go(func() {
			got, err := act(context.WithoutCancel(ctx))
			done <- outcome{got, err}
		})
		select {
		case o := <-done:
			return o.got, o.err
		case <-ctx.Done():
			return outcome{}.got, unavailable("locks were waited for")
		}
	})
}

func (e *edge) stall(string) {
	if kind, by := e.w.weather.strikes(e.index, stalls); kind != "" {
		time.Sleep(by)
	}
}

func (e *edge) repeat(string) bool {
	kind, _ := e.w.weather.strikes(e.index, repeats)
	return kind != ""
}

// newID mints an id by the process's wall clock.
func (e *edge) newID() (string, error) {
	id, err := uuid.NewV7()
	return e.shift(id.String()), err
}

// shift makes an id what the process's wall clock would have made it.
func (e *edge) shift(id string) string {
	off := e.w.wall(e.index)
	u, err := uuid.Parse(id)
	if off == 0 || err != nil {
		return id
	}
	ms := int64(u[0])<<40 | int64(u[1])<<32 | int64(u[2])<<24 | int64(u[3])<<16 | int64(u[4])<<8 | int64(u[5])
	ms += off.Milliseconds()
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	return u.String()
}

type nothing struct{}

func (e *edge) Join(ctx context.Context, m ledger.Member) (string, error) {
	return call(ctx, e, func(ctx context.Context) (string, error) {
		id, err := e.st.Join(ctx, m)
		return id, err
	})
}

func (e *edge) Beat(ctx context.Context, session string) (time.Time, error) {
	return call(ctx, e, func(ctx context.Context) (time.Time, error) { return e.st.Beat(ctx, session) })
}

func (e *edge) SetDraining(ctx context.Context, session string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.SetDraining(ctx, session) })
	return err
}

func (e *edge) Peers(ctx context.Context) ([]ledger.Peer, error) { return call(ctx, e, e.st.Peers) }

func (e *edge) Bury(ctx context.Context, session string, beat int64) (bool, error) {
	return call(ctx, e, func(ctx context.Context) (bool, error) { return e.st.Bury(ctx, session, beat) })
}

func (e *edge) Leave(ctx context.Context, session string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.Leave(ctx, session) })
	return err
}

func (e *edge) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return call(ctx, e, func(ctx context.Context) (int64, error) { return e.st.Load(ctx, session, d) })
}

func (e *edge) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Assertion, error) { return e.st.Assert(ctx, session, d) })
}

func (e *edge) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Upcoming, error) { return e.st.Upcoming(ctx, stripes) })
}

func (e *edge) Overdue(ctx context.Context, t time.Time, limit int) ([]ledger.Upcoming, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Upcoming, error) { return e.st.Overdue(ctx, t, limit) })
}

func (e *edge) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for _, dec := range decisions {
			for i := range dec.Triggers {
				if task := dec.Triggers[i].Task; task != nil {
					minted := *task
					minted.ID = e.shift(task.ID)
					dec.Triggers[i].Task, dec.Triggers[i].Trigger.TaskID = &minted, minted.ID
				}
			}
		}
		return decisions
	}
	return stalled(ctx, e, func(ctx context.Context) (ledger.Decided, error) {
		decided, err := e.st.Decide(ctx, d)
		e.life.trip(decided.Started)
		return decided, err
	})
}

func (e *edge) Ready(ctx context.Context) ([]string, time.Time, error) {
	type ready struct {
		pools []string
		next  time.Time
	}
	got, err := call(ctx, e, func(ctx context.Context) (r ready, err error) {
		r.pools, r.next, err = e.st.Ready(ctx)
		return r, err
	})
	return got.pools, got.next, err
}

func (e *edge) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	return stalled(ctx, e, func(ctx context.Context) (ledger.Claimed, error) {
		claimed, err := e.st.Claim(ctx, c)
		e.life.trip(claimed.Tasks)
		return claimed, err
	})
}

func (e *edge) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Finished, error) {
		done, err := e.st.Finish(ctx, session, results)
		for _, f := range done {
			e.w.count("finish " + string(f.Finish))
		}
		return done, err
	})
}

func (e *edge) Extend(ctx context.Context, session string, moves []ledger.Extension) ([]bool, error) {
	return call(ctx, e, func(ctx context.Context) ([]bool, error) { return e.st.Extend(ctx, session, moves) })
}

func (e *edge) Own(ctx context.Context, session string) ([]ledger.Own, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Own, error) { return e.st.Own(ctx, session) })
}

func (e *edge) Reap(ctx context.Context, limit int) ([]ledger.Reaped, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Reaped, error) { return e.st.Reap(ctx, limit) })
}

func (e *edge) Sweep(ctx context.Context, r ledger.Retention, limit int) (bool, error) {
	return call(ctx, e, func(ctx context.Context) (bool, error) { return e.st.Sweep(ctx, r, limit) })
}

func (e *edge) Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error) {
	type found struct {
		task     jobs.Task
		attempts []jobs.Attempt
	}
	got, err := call(ctx, e, func(ctx context.Context) (f found, err error) {
		f.task, f.attempts, err = e.st.Task(ctx, id)
		return f, err
	})
	return got.task, got.attempts, err
}

func (e *edge) RetryTask(ctx context.Context, id, by string) (jobs.Task, error) {
	return call(ctx, e, func(ctx context.Context) (jobs.Task, error) { return e.st.RetryTask(ctx, id, by) })
}

func (e *edge) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Notified, error) { return e.st.Notify(ctx, n) })
}

func (e *edge) Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]ledger.Enqueued, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Enqueued, error) { return e.st.Enqueue(ctx, tasks...) })
}
