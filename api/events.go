package api

import (
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

// events sends a stream of server-sent events: "overview" with a wire.Overview at once and after each change, with
// comments between them. It ends after some minutes, when the server stops, and when the client does not keep up;
// clients reconnect. Without write deadlines, which detect a slow client, it ends after the first event.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	if q := readQuery(r); q.err != nil {
		return q.err
	}
	leave, all, ok := s.streams.take(r.Context(), s.party(r), 1, 0)
	if !ok {
		return busy(w, streamWait, all, "streams", maxStreams, maxStreamsEach)
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would wait for the end
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
