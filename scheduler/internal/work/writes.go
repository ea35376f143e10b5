package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// The pauses between two looks whether the store was written: while tasks come, or after the store has told of a write, which may be one of
// several of a transaction; and else.
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
//  3. else, unless tasks arrive, wait until the store tells of a write, and then watchFast: an idle process does not wake up to look
func (e *Executor) watchWrites(ctx context.Context) {
	writes := e.store.Writes()
	if writes == nil {
		return
	}
	for pause := watchSlow; wake.Wait(ctx, pause, nil); {
		pause = watchSlow
		arrive := e.tasksArrive()
		if arrive {
			pause = watchFast
		}
		switch {
		case writes.Written():
			wake.Send(e.wakePoll)
			pause = max(pause, pollLeast)
		case !arrive && writes.Await(ctx, pollSlow):
			pause = watchFast
		}
	}
}
