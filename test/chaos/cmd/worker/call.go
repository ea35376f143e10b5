//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// answer of a replica. Status 0: there was none.
type answer struct {
	status int
	code   string // of an error
	body   []byte
}

func (a answer) ok() bool { return a.status/100 == 2 }

// known reports whether it says what became of the call: another replica is asked otherwise.
func (a answer) known() bool {
	return a.status != 0 && a.status/100 != 5 && a.status != http.StatusTooManyRequests
}

const (
	betweenTries = 50 * time.Millisecond
	answerTime   = 700 * time.Millisecond // of a heartbeat, and of a claim beyond its wait; a frozen replica must not cost the session
	endTime      = 2 * time.Second        // of an end: it takes more of the store, and heartbeats go on meanwhile
	patience     = 10 * time.Second       // for the answer to an end
)

// post asks one replica, which is the next one's turn if it does not say what became of the call. The answer renews the session.
func (w *worker) post(ctx context.Context, method, path string, body any, limit time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	turn := w.turn.Load()
	sent := time.Now()
	a := w.send(ctx, method, w.replicas[int(turn)%len(w.replicas)]+"/api/v1/"+path, body)
	if a.ok() {
		w.renewed(sent)
	}
	if !a.known() {
		w.turn.CompareAndSwap(turn, turn+1)
	}
	return a
}

func (w *worker) send(ctx context.Context, method, url string, body any) (a answer) {
	text, err := json.Marshal(body)
	if err != nil {
		return a
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return a
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := w.http.Do(request)
	if err != nil {
		return a
	}
	defer response.Body.Close()
	if a.body, err = io.ReadAll(response.Body); err != nil {
		return answer{} // it was cut
	}
	a.status = response.StatusCode
	var problem struct{ Error struct{ Code string } }
	_ = json.Unmarshal(a.body, &problem) // an answer without a code has an empty one
	a.code = problem.Error.Code
	return a
}

// say tells the replicas something of an attempt until one says what became of it, or ctx ends, and logs each answer.
func (w *worker) say(ctx context.Context, what string, t *item, stale bool, more map[string]any) answer {
	limit := endTime
	if what == "heartbeat" {
		limit = answerTime
	}
	for {
		body := map[string]any{"session": t.session, "token": t.Token}
		for key, value := range more {
			body[key] = value
		}
		a := w.post(ctx, http.MethodPost, "tasks/"+t.ID+"/"+what, body, limit)
		if what != "heartbeat" || stale || a.status == http.StatusInternalServerError {
			w.note(w.said.Add(history.Said{What: what, At: time.Now(), Worker: t.worker, TaskID: t.ID, Token: t.Token, Stale: stale, Status: a.status, Code: a.code}))
		}
		if a.known() {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-time.After(betweenTries):
		}
	}
}
