package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// edge is the connection between one process and the store.
type edge struct {
	st      *memstore.Store
	index   int // of the replica; -1: an outsider
	w       *world
	process *process

	decisions atomic.Int64 // about several jobs
}

func unavailable(why string) error { return fmt.Errorf("%w: simulated: %s", jobs.ErrUnavailable, why) }

// call makes one call of the store, with the present faults.
func call[T any](ctx context.Context, e *edge, act func(ctx context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // as the store does
	defer cancel()
	if !e.process.goOn() {
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
		e.process.goOn()
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
		e.process.goOn()
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
	if !e.process.goOn() {
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
	case <-e.process.dead:
	}
	return true
}

// stalled makes a call whose transaction may wait for locks longer than its caller waits for it.
func stalled[T any](ctx context.Context, e *edge, act func(ctx context.Context) (T, error)) (T, error) {
	return call(ctx, e, func(ctx context.Context) (T, error) {
		var none T
		if ctx.Err() != nil {
			return none, unavailable("too late")
		}
		if !e.w.weather.any(e.index, stalls) {
			return act(ctx)
		}
		type outcome struct {
			got T
			err error
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
			return none, unavailable("locks were waited for")
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
