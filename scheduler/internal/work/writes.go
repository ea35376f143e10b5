package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// watchPause is between two looks whether the store was written.
const watchPause = 4 * time.Millisecond

// watchWrites wakes the poll when the store was written, until ctx is done: another process may have enqueued a task. It does nothing
// where the store does not show that it was written.
//
//  1. wait watchPause, or pollLeast if the poll was just woken: all writes of that time wake it together, at the end
//  2. if the store was written, wake the poll
func (e *Executor) watchWrites(ctx context.Context) {
	written := e.store.Written()
	if written == nil {
		return
	}
	for pause := watchPause; wake.Wait(ctx, pause, nil); {
		pause = watchPause
		if written() {
			wake.Send(e.wakePoll)
			pause = pollLeast
		}
	}
}
