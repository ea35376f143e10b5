package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	pollLeast = 10 * time.Millisecond
	pollFast  = 15 * time.Millisecond
	pollBusy  = 50 * time.Millisecond
	pollSlow  = 500 * time.Millisecond
	// arrivalsFor is how long the poll goes on with pollFast after it found tasks that this replica took: nobody told it of them,
	// and more may come in the same way.
	arrivalsFor = 2 * time.Second
)

// poll asks which pools have work and wakes their feeders, until ctx is done. Tasks that this replica cannot run, in pools
// that it has or lacks, are no work.
//
//  1. wait pollFast for arrivalsFor after an arrival, and pollBusy after work was found, but not for pools whose feeders go on by
//     themselves; then twice as long each time, up to pollSlow; or until woken. Where the store shows that it was written, watchWrites wakes the poll
//  2. while no work may begin, wait again
//  3. ask the store which pools have tasks that are due, and when the next waiting task is
//  4. wake the feeders of these pools, unless their claims found nothing to take a short time ago
//  5. keep what the other loops would find, see Ahead
//  6. shorten the wait to the moment at which the next waiting task is due
func (e *Executor) poll(ctx context.Context) {
	watched := e.store.Writes() != nil
	wait := pollBusy
	for wake.Wait(ctx, wait, e.wakePoll) {
		if !e.MayBegin() || e.locks.Blocks() {
			wait = pollSlow
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		asked := time.Now()
		is, err := e.store.Ready(cctx, e.clock.Check)
		cancel()
		if err != nil {
			e.member.StoreFailed(err)
			wait = pollSlow
			continue
		}
		e.ahead.Store(&aheadAt{is.Ahead, asked})
		wait = min(2*wait, pollSlow)
		for _, name := range is.Pools {
			f := e.present(name)
			if f == nil {
				e.meetUnknown()
				continue
			}
			e.arrived(name)
			awake, work := f.forPoll()
			if awake {
				wake.Send(f.wake)
			}
			if work && !e.shortages.closed(name) {
				wait = pollBusy
			}
		}
		if !watched && e.tasksArrive() {
			wait = pollFast
		}
		if !is.Next.IsZero() {
			wait = max(pollLeast, min(wait, is.Next.Sub(e.clock.Now())))
		}
	}
}

// tasksArrive reports whether tasks arrive in a pool that this replica is to be told of.
func (e *Executor) tasksArrive() bool {
	for _, f := range *e.feeders.all.Load() {
		if f.tasksArrive() {
			return true
		}
	}
	return false
}
