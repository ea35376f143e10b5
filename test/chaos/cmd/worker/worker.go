//go:build linux

package main

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	slots     = 2
	claimWait = 2 * time.Second
)

// worker has one session at a time.
type worker struct {
	name, pool string
	replicas   []string // URLs
	effects    *history.Log[history.Effect]
	said       *history.Log[history.Said]
	http       *http.Client
	turn       atomic.Int64 // whose it is to be asked
	working    sync.WaitGroup

	mu      sync.Mutex
	err     error // of a log
	session string
	ttl     time.Duration
	trusted time.Time          // when the last call that was answered was sent, and the ttl
	has     map[string]*item   // by task
	before  map[string][]*item // attempts that the session had, by task, the latest last
}

// item is a task as a claim answers it.
type item struct {
	ID             string
	Attempt        int
	Token          int64
	Payload        history.Does
	Deadline       time.Time
	IdempotencyKey string `json:"idempotency_key"`

	session, worker string
	lost            context.CancelFunc // the session has ended
}

func newWorker(name, pool string, replicas []string, effects *history.Log[history.Effect], said *history.Log[history.Said]) *worker {
	w := &worker{name: name, pool: pool, replicas: replicas, effects: effects, said: said, has: map[string]*item{}, before: map[string][]*item{}}
	w.turn.Store(rand.Int64N(int64(len(replicas)))) //nolint:gosec // a choice, not a secret
	w.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second}}
	return w
}

// run claims and works until ctx ends:
//
//  1. claim as many tasks as there are free slots, and say which ones it has; without a free one, wait
//  2. start what the answer has; after a refusal, stop everything, and open another session
//  3. at the end finish what runs, and leave
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil && w.failed() == nil {
		free, body := w.next()
		if free == 0 {
			pause(ctx, betweenTries)
			continue
		}
		a := w.post(ctx, http.MethodPost, "pools/"+w.pool+"/claim", body, claimWait+answerTime)
		switch {
		case a.ok():
			w.take(ctx, a)
		case a.status == http.StatusConflict || a.status == http.StatusNotFound:
			w.expired()
		default:
			if a.status == http.StatusInternalServerError {
				w.note(w.said.Add(history.Said{What: "claim", At: time.Now(), Worker: w.name, Status: a.status, Code: a.code}))
			}
			pause(ctx, betweenTries)
		}
	}
	w.working.Wait()
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session != "" {
		ctx = context.WithoutCancel(ctx)
		w.post(ctx, http.MethodDelete, "workers/"+session, nil, answerTime) // without an answer it expires
	}
	return w.failed()
}

// next is the next claim.
func (w *worker) next() (free int, body map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	free = slots - len(w.has)
	body = map[string]any{"max": max(free, 1), "wait": claimWait.String()}
	if w.session == "" {
		body["name"] = w.name
	} else {
		body["session"], body["have"] = w.session, slices.AppendSeq([]string{}, maps.Keys(w.has))
	}
	return free, body
}

// take starts what a claim has brought.
func (w *worker) take(ctx context.Context, a answer) {
	var got struct {
		Session, Worker, TTL string
		Items                []*item
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		w.note(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != got.Session {
		w.before = map[string][]*item{}
	}
	w.session = got.Session
	w.ttl, _ = time.ParseDuration(got.TTL)                  // 0 stops everything at once, which the judge sees
	w.trusted = maxTime(w.trusted, time.Now().Add(w.ttl/3)) // a claim that waits renews it each third of the ttl
	for _, t := range got.Items {
		t.session, t.worker = got.Session, got.Worker
		earlier := w.before[t.ID]
		w.before[t.ID] = append(earlier, t)
		w.has[t.ID] = t
		working, stop := context.WithCancel(context.WithoutCancel(ctx))
		t.lost = stop
		w.working.Go(func() {
			defer stop()
			w.attempt(working, t, earlier)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.has[t.ID] == t {
				delete(w.has, t.ID)
			}
		})
	}
}

// renewed notes that a call was answered.
func (w *worker) renewed(sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trusted = maxTime(w.trusted, sent.Add(w.ttl))
}

// trusts reports whether the session may be relied on.
func (w *worker) trusts(session string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return session == w.session && time.Now().Before(w.trusted)
}

// expired gives up what the session had.
func (w *worker) expired() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.has {
		t.lost()
	}
	w.session, w.trusted = "", time.Time{}
}

// note keeps the first error of a log: the process ends then.
func (w *worker) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *worker) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
