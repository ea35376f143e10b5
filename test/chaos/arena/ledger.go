//go:build linux

package arena

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// ledger is the application that the replicas' requests go to. /open accepts every request; /fenced keeps the
// largest token of each job and refuses smaller ones, as a target with fencing does. What a request does is in
// its query, and in its body for tasks of clients: see history.Does.
type ledger struct {
	url     string
	server  *http.Server
	effects *history.Log[history.Effect]
	note    func(error) // gets errors of the log
	joining sync.WaitGroup

	mu      sync.Mutex
	largest map[string]int64 // token, by job or task
}

func openLedger(dir string, note func(error)) (*ledger, error) {
	effects, err := history.OpenLog[history.Effect](dir, history.EffectsFile)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, effects.Close())
	}
	l := &ledger{url: "http://" + listener.Addr().String(), effects: effects, note: note, largest: map[string]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /open", func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, history.Open) })
	mux.HandleFunc("POST /fenced", func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, history.Fenced) })
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	l.joining.Go(func() { _ = l.server.Serve(listener) }) // until it is closed
	return l, nil
}

func (l *ledger) serve(w http.ResponseWriter, r *http.Request, lane string) {
	does := history.Does{Takes: r.URL.Query().Get("takes")}
	_ = json.NewDecoder(r.Body).Decode(&does) // requests of jobs have no body
	e := effectOf(r.Header, lane)
	e.Fails = e.Attempt <= does.Fails
	l.mu.Lock()
	if lane == history.Fenced {
		of := cmp.Or(e.Job, e.TaskID)
		e.Refused = e.Token < l.largest[of]
		l.largest[of] = max(l.largest[of], e.Token)
	}
	e.At = time.Now()
	l.note(l.effects.Add(e)) // under the lock: lines have the order of the decisions
	l.mu.Unlock()
	if e.Refused {
		http.Error(w, fmt.Sprintf("token %d\nis smaller than one that was here before", e.Token), http.StatusConflict)
		return
	}
	takes, _ := time.ParseDuration(does.Takes)
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return
	}
	if e.Fails {
		http.Error(w, fmt.Sprintf("token %d\nfailed as configured", e.Token), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "token %d\n", e.Token)
}

// effectOf is the effect that a request describes.
func effectOf(h http.Header, lane string) history.Effect {
	attempt, _ := strconv.Atoi(h.Get("Lockstep-Attempt"))
	token, _ := strconv.ParseInt(h.Get("Lockstep-Fencing-Token"), 10, 64)
	at, _ := time.Parse(time.RFC3339Nano, h.Get("Lockstep-Scheduled-At")) // empty for tasks of clients
	return history.Effect{
		What: lane, Key: h.Get("Idempotency-Key"), Job: h.Get("Lockstep-Job"), Pool: h.Get("Lockstep-Pool"),
		TaskID: h.Get("Lockstep-Task-Id"), ScheduledAt: at, Attempt: attempt, Token: token, Replica: h.Get("Lockstep-Replica"),
	}
}

func (l *ledger) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
	l.joining.Wait()
	return l.effects.Close()
}
