package scheduler

import (
	"context"
	"errors"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/work"
)

// Waker wakes the replicas of other processes, for a program that enqueues and runs no replica itself: an idle replica starts a
// task at once then, and not with its next look at the store. A replica does this by itself. Make it with NewWaker.
type Waker struct {
	store   ledger.Store
	notices *work.NoticeSender
}

// NewWaker makes a Waker for what st enqueues. lk is a client of the replicas' lock service, with the same namespace. One that
// cannot send notices ([locks.Caps].Notices), or nil, is no error: then a Waker does nothing, and the replicas find the tasks by
// themselves, after 15 to 500 ms, in a SQLite file after 4 to 20 ms.
func NewWaker(st Store, lk Locks) (*Waker, error) {
	if nilcheck.IsNil(st) || nilcheck.IsNil(st.Sides().Replica) {
		return nil, errors.New("scheduler: NewWaker: the store is nil")
	}
	if lk != nil && nilcheck.IsNil(lk) {
		return nil, errors.New("scheduler: NewWaker: lk is a nil pointer: pass nil where there is no lock service")
	}
	return &Waker{store: st.Sides().Replica, notices: work.NewNoticeSender(noticesOf(lk))}, nil
}

// Run wakes replicas after each Enqueue of the store, until ctx is done; then it returns nil. Two notices about one pool are at
// least 10 ms apart. One may be lost: then the replicas find the tasks by themselves.
func (w *Waker) Run(ctx context.Context) error {
	defer w.store.Listen(w.Wake)()
	w.notices.Run(ctx)
	return nil
}

// Wake makes Run wake replicas that have the pools. A program calls it after the COMMIT of a transaction with EnqueueTx: nothing else
// tells Run of that. It does not block.
func (w *Waker) Wake(pools ...string) { w.notices.Add(pools...) }
