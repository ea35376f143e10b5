package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// The pauses between two looks whether the store was written: while tasks come, and else. Each look costs an idle process the time
// to wake up, much more than the look itself.
const (
	watchFast = 4 * time.Millisecond
	watchSlow = 20 * time.Millisecond
)

// watchWrites wakes the poll when the store was written, until ctx is done: another process may have enqueued a task. It does nothing
// where the store does not show that it was written.
//
//  1. wait watchSlow, or watchFast for arrivalsFor after an arrival, and at least pollLeast if the poll was just woken: all writes
//     of that time wake it together, at the end
//  2. if the store was written, wake the poll
func (e *Executor) watchWrites(ctx context.Context) {
	written := e.store.Written()
	if written == nil {
		return
	}
	for pause := watchSlow; wake.Wait(ctx, pause, nil); {
		pause = watchSlow
		if e.tasksArrive() {
			pause = watchFast
		}
		if written() {
			wake.Send(e.wakePoll)
			pause = max(pause, pollLeast)
		}
	}
}
