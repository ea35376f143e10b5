//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// each is between two beats of an attempt.
const each = 100 * time.Millisecond

// attempt runs one, and says how it ended. earlier are those of its task that the session had before.
func (w *worker) attempt(ctx context.Context, t *item, earlier []*item) {
	for _, old := range earlier {
		if old.Token == t.Token { // the same one again: what was said of it last had no answer
			w.end(t, "fail", "it was given up", nil)
			return
		}
	}
	if len(earlier) == 0 && rand.IntN(10) == 0 { //nolint:gosec // a choice, not a secret
		delay := time.Duration(rand.IntN(2)) * 300 * time.Millisecond //nolint:gosec // a choice, not a secret
		w.end(t, "snooze", "", map[string]any{"delay": delay.String()})
		return
	}
	why, failed := w.work(ctx, t, earlier)
	switch {
	case why != "":
		w.end(t, "fail", why, nil)
	case failed:
		w.end(t, "fail", "failed as configured", map[string]any{"output": fmt.Sprintf("token %d\n", t.Token)})
	default:
		w.end(t, "complete", "", map[string]any{"output": fmt.Sprintf("token %d\n", t.Token)})
	}
}

// end says how an attempt ended, also after the session has: its result may be late.
func (w *worker) end(t *item, how, why string, more map[string]any) {
	if why != "" {
		if more == nil {
			more = map[string]any{"output": fmt.Sprintf("token %d\n%s\n", t.Token, why)}
		}
		more["error"] = why
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.say(ctx, how, t, false, more)
}

// work does what the payload says. why is why it was stopped; failed: it failed on purpose.
func (w *worker) work(ctx context.Context, t *item, earlier []*item) (why string, failed bool) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beating sync.WaitGroup
	defer beating.Wait()
	defer stop(nil)
	beating.Go(func() { w.beat(ctx, stop, t) })
	for _, old := range earlier[max(0, len(earlier)-1):] {
		beating.Go(func() { w.stale(ctx, old) })
	}
	e := history.Effect{Key: t.IdempotencyKey, Pool: w.pool, TaskID: t.ID, Attempt: t.Attempt, Token: t.Token, Replica: t.worker, PID: os.Getpid()}
	write := func(what string) bool {
		switch {
		case ctx.Err() != nil:
			why = "stopped: " + context.Cause(ctx).Error()
		case !w.trusts(t.session):
			why = "stopped: no replica has answered"
		case time.Now().After(t.Deadline):
			why = "stopped: the deadline is over"
		default:
			e.What, e.At = what, time.Now()
			w.note(w.effects.Add(e))
			return true
		}
		return false
	}
	takes, _ := time.ParseDuration(t.Payload.Takes) // none: it takes no time
	if len(earlier) > 0 {
		takes = max(takes, time.Second) // for the answer to what is said with the earlier token
	}
	if !write(history.Start) {
		return why, false
	}
	for end := time.Now().Add(takes); time.Now().Before(end); {
		pause(ctx, min(each, time.Until(end)))
		if !write(history.Beat) {
			return why, false
		}
	}
	e.Fails = t.Attempt <= t.Payload.Fails
	if !write(history.End) {
		return why, false
	}
	return "", e.Fails
}

// beat says at once and each third of the ttl that the attempt goes on, until ctx ends. A refusal, or the wish to cancel it, stops it.
func (w *worker) beat(ctx context.Context, stop context.CancelCauseFunc, t *item) {
	w.mu.Lock()
	every := w.ttl / 3
	w.mu.Unlock()
	for ; ctx.Err() == nil; pause(ctx, every) {
		a := w.say(ctx, "heartbeat", t, false, nil)
		var got struct{ Cancel bool }
		switch {
		case !a.known():
		case !a.ok():
			stop(fmt.Errorf("a heartbeat was refused with %s", a.code))
		case json.Unmarshal(a.body, &got) == nil && got.Cancel:
			stop(fmt.Errorf("cancelled"))
		}
	}
}

// stale says that an earlier attempt is complete, and that it lives, while the session runs a later one of its task.
func (w *worker) stale(ctx context.Context, old *item) {
	w.say(ctx, "complete", old, true, map[string]any{"output": "stale\n"})
	w.say(ctx, "heartbeat", old, true, nil)
}
