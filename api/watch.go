package api

import (
	"bytes"
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	watchPause = time.Second
	watchShare = 10          // of the time, at most one part in so many is spent reading
	watchAway  = time.Second // for a store to answer that the replica finds away: people wait for the news
)

// watch reads the overview for all streams together: the first stream after the pause reads, and the others get the
// result. The cost does not grow with streams, and without any the store is not read.
type watch struct {
	read    func(context.Context) (ledger.Overview, error)
	explain func(error) string
	up      func() bool   // whether the replica finds the store there
	turn    chan struct{} // to read, or to look at what follows
	last    snapshot
	view    ledger.Overview // that last was made of
	failed  bool            // the last read did
	away    bool            // and the replica has found the store away since
}

// snapshot is the result of one read.
type snapshot struct {
	number int64     // another one: another event
	event  []byte    // ready to send
	until  time.Time // of the pause
}

func newWatch(read func(context.Context) (ledger.Overview, error), explain func(error) string, up func() bool) *watch {
	w := &watch{read: read, explain: explain, up: up, turn: make(chan struct{}, 1)}
	listAll(&w.view) // what is told if the store has never answered
	return w
}

// get returns the overview, at most a pause old; the pause ends early when the store answers again. The only error is
// that of ctx.
func (w *watch) get(ctx context.Context) (snapshot, error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return snapshot{}, ctx.Err()
	}
	defer func() { <-w.turn }()
	began := time.Now()
	up := w.up()
	w.away = w.away || w.failed && !up
	if began.Before(w.last.until) && !(w.away && up) {
		return w.last, nil
	}
	rctx, cancel := ctx, context.CancelFunc(func() {})
	if !up {
		rctx, cancel = context.WithTimeout(ctx, watchAway)
	}
	view, err := w.read(rctx)
	cancel()
	if ctx.Err() != nil {
		return snapshot{}, ctx.Err() // says nothing about the store
	}
	w.failed, w.away = err != nil, err != nil && !w.up()
	if err != nil {
		known := w.view
		known.Replica, known.Readiness, known.Error = view.Replica, view.Readiness, w.explain(err)
		view = known
	}
	w.publish(view)
	w.last.until = time.Now().Add(max(watchPause, watchShare*time.Since(began)))
	return w.last, nil
}

// publish makes view the last one. A change of the clock alone is no change.
func (w *watch) publish(view ledger.Overview) {
	at := view.At
	view.At = w.view.At
	if w.last.number > 0 && bytes.Equal(eventOf("overview", view), w.last.event) {
		return
	}
	view.At = at
	w.view = view
	w.last.number++
	w.last.event = eventOf("overview", view)
}
