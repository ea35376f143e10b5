package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	streamBeat     = 15 * time.Second // without news, a sign of life
	streamAge      = 10 * time.Minute // then the client asks again, with what it may by then
	streamPatience = 5 * time.Second  // for a client to take an event
	streamWait     = 10 * time.Second // before a client that finds no room asks again
)

// events sends a stream of server-sent events: "overview" with a ledger.Overview. The header Lockstep-Role has the role of the caller, so
// that the page knows what to offer.
//
//  1. get the overview, which one read brings for all streams (watch)
//  2. send it at once, and after each change; without one, send a comment each streamBeat
//  3. wait until the next read is due
//  4. end after streamAge, when the server stops, and when the client does not keep up; clients reconnect
//
// Without write deadlines, which detect a slow client, it ends after the first event.
func (s *server) events(w http.ResponseWriter, r *http.Request, _ *query) error {
	leave, all, ok := s.streams.take(r.Context(), s.party(r), 1, 0)
	if !ok {
		return busy(w, streamWait, all, "streams", maxStreams, maxStreamsEach)
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would wait for the end
	w.Header().Set("Lockstep-Role", string(callerOf(r).Role))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	stream := http.NewResponseController(w)
	send := func(text []byte) (more bool) {
		bounded := stream.SetWriteDeadline(time.Now().Add(s.patience))
		_, err := w.Write(text)
		if errors.Join(bounded, err, stream.Flush()) != nil {
			return false
		}
		return stream.SetWriteDeadline(time.Time{}) == nil // with HTTP/2 it would end the stream by itself
	}

	ctx, stop := r.Context(), stopping(r.Context())
	end := time.NewTimer(streamAge)
	defer end.Stop()
	var told int64
	var toldAt time.Time
	for {
		now, err := s.watch.get(ctx)
		if err != nil {
			return nil // the client has gone
		}
		text := []byte(":\n\n")
		if now.number != told {
			text = now.event
		}
		if now.number != told || time.Since(toldAt) >= streamBeat {
			if !send(text) {
				return nil
			}
			told, toldAt = now.number, time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			return nil
		case <-end.C:
			return nil
		case <-time.After(min(time.Until(now.until), watchPause)):
		}
	}
}

// eventOf formats an event with v as its data.
func eventOf(name string, v ledger.Overview) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		text, _ = json.Marshal(map[string]string{"error": err.Error()}) // no value of ours
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

const (
	watchPause = time.Second
	watchShare = 10          // of the time, at most one part in so many is spent reading
	watchAway  = time.Second // for the store to answer while the replica finds it away: the page waits
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
	listAll(&w.view) // what is sent if the store has never answered
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
