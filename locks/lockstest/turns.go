package lockstest

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// waiter is one client that waits for keys, holds them for a moment, gives up, and sometimes loses its session.
type waiter struct {
	*contender
	turns *turnHistory
	hold  time.Duration // a key is held for less
	falls bool          // once it has something
	stale bool          // its session may have ended, and goes on
}

// turn is one acquisition of a key.
type turn struct {
	turnCall
	place driver.Place
	held  driver.Token // 0: it waits
	since int64        // when its place was asked for: its grant may come before the answer
	late  bool         // one of its requests had no answer, and may arrive once it has ended
}

// run takes turns, spread over span if they are faster.
func (w *waiter) run(span time.Duration) {
	if !w.begin() {
		return
	}
	// Turns that are spread far apart are held the longer, or nobody would have to wait.
	w.hold = max(300*time.Microsecond, span/turnOps/4)
	began := time.Now()
	fall := turnOps/4 + w.random.IntN(turnOps/4)
	for n := 0; n < turnOps && !w.t.Failed(); n++ {
		time.Sleep(time.Until(began.Add(span * time.Duration(n) / turnOps)))
		w.falls = w.falls || n%fall == fall-1
		w.act()
	}
	w.finish()
}

// act takes one turn: ask, wait, hold, release. If it is to fall, its session ends before.
func (w *waiter) act() {
	if w.stale { // each call more would be one without a sure answer
		w.stale = false
		w.finish()
		if !w.begin() {
			return
		}
	}
	turn, do := w.next(), turnAsk
	if !w.turns.waits || !w.falls && w.random.IntN(4) == 0 {
		do = turnTry
	}
	if !w.ask(turn, do, nil) {
		return
	}
	for again := w.random.IntN(3); ; again-- {
		if w.falls {
			w.falls = false
			w.fallWith(turn)
			return
		}
		if turn.held == 0 && (turn.since == 0 || !w.wait(turn)) {
			return
		}
		time.Sleep(time.Duration(w.random.Int64N(int64(w.hold))))
		if again <= 0 || !w.turns.waits || turn.late {
			w.release(turn)
			return
		}
		next := w.next()
		next.key, next.place.Key, next.kind = turn.key, turn.key, turn.kind
		if !w.ask(next, turnAsk, turn) {
			return
		}
		turn = next
	}
}

// next is a new acquisition. The first key is exclusive, the others are also held together: the last one up to a limit, if there are limits.
func (w *waiter) next() *turn {
	key := w.random.IntN(turnKeys)
	kind := turnKind{limit: 1}
	if w.random.IntN(3) > 0 {
		kinds := [turnKeys]turnKind{{limit: 1}, {shared: true, limit: 1}, {limit: 2}}
		if !w.turns.limits {
			kinds[turnKeys-1] = kinds[1]
		}
		kind = kinds[key]
	}
	return &turn{
		turnCall: turnCall{key: name(key), session: w.clientSession.number, id: w.turns.id(), kind: kind},
		place:    driver.Place{Acquisition: rand.Text(), Key: name(key)},
	}
}

// repeat makes a call until it is answered; sent: one before the last may arrive later. After ErrSessionEnded, or no answer for
// too long, the session is over for the client. If the service has lost data, what was sent before is gone with all that it did, and
// forgotten, if any, is called.
func (w *waiter) repeat(do func(ctx context.Context) error, forgotten func()) (sent bool, err error) {
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(w.t.Context(), w.patient())
		err = do(ctx)
		if err == nil || errors.Is(err, driver.ErrSessionEnded) {
			cancel()
			return sent, err
		}
		switch {
		case errors.Is(err, driver.ErrRecovering) && sent && forgotten != nil:
			forgotten()
			sent = false
		case !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrRecovering):
			sent = true
		}
		wait(ctx, w.patient()/10)
		cancel()
		if time.Since(began) > 3*w.ttl {
			return sent, err
		}
	}
}

// ask asks for the turn, after it has released another one. It returns false if the session is over, or there is nothing to
// wait for.
func (w *waiter) ask(turn *turn, do turnAct, release *turn) bool {
	want := driver.Want{Key: turn.key, Shared: turn.kind.shared}
	if !want.Shared {
		want.Limit = turn.kind.limit
	}
	var held []driver.Held
	if release != nil {
		held = []driver.Held{{Key: release.key, Token: release.held}}
	}
	begun := w.h.now()
	first, freed := begun, false // what is to be released may be free, also where the service grants nothing
	turn.do = do
	var r driver.Result
	sent, err := w.repeat(func(ctx context.Context) (err error) {
		var results []driver.Result
		if do == turnTry {
			results, err = w.clientSession.TryAcquire(ctx, turn.place.Acquisition, []driver.Want{want})
		} else {
			results, err = w.clientSession.Queue().Acquire(ctx, turn.place.Acquisition, held, []driver.Want{want})
		}
		if err != nil {
			return err
		}
		freed, r = true, results[0]
		return r.Err
	}, func() {
		w.undone(turn, do, begun)
		begun, freed = w.h.now(), true
	})
	if err != nil {
		if release != nil && (sent || freed) {
			w.missing(release, turnRelease, first)
		}
		switch {
		case sent:
			w.missing(turn, do, begun)
			turn.since = begun
		case freed:
		case release != nil: // nothing was done: it ends with the session
			turn = release
		}
		w.fallWith(turn)
		return false
	}
	if release != nil {
		w.released(release, first)
	}
	if turn.held = r.Token; r.Queued {
		turn.since = begun
	}
	turn.late = sent
	if sent && r.Token == 0 && !r.Queued { // what was sent before may be granted until it is abandoned
		turn.since = begun
		w.giveUp(turn, do)
		return false
	}
	if sent && do == turnAsk && r.Token > 0 { // perhaps it was queued first, and its turn has come since
		w.note(turn, turnAsk, begun, turnAnswer{queued: true})
		w.note(turn, turnGrant, begun, turnAnswer{token: r.Token})
		return true
	}
	w.note(turn, do, begun, turnAnswer{queued: r.Queued, token: r.Token})
	return turn.held > 0 || r.Queued
}

// wait waits until the turn has come, or for a short time and gives up: then it returns false.
func (w *waiter) wait(turn *turn) bool {
	patience := time.Duration(w.random.IntN(20_000)) * time.Microsecond
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for turn.held == 0 {
		select {
		case g := <-w.clientSession.Queue().Granted():
			if g.Place == turn.place {
				turn.held = g.Token
			}
		case <-timer.C:
			if w.random.IntN(2) == 0 {
				w.giveUp(turn, turnGrant)
				return false
			}
			_, err := w.repeat(func(ctx context.Context) error {
				results, err := w.clientSession.Queue().Look(ctx, []driver.Place{turn.place})
				if err == nil {
					turn.held, err = results[0].Token, results[0].Err
				}
				return err
			}, nil)
			if err != nil {
				w.fallWith(turn)
				return false
			}
			timer.Reset(patience)
		}
	}
	w.note(turn, turnGrant, turn.since, turnAnswer{token: turn.held})
	turn.since = 0
	return true
}

// giveUp abandons a place, which may have been granted a moment ago, or what was asked for without an answer: once that is
// answered, no request for it arrives any more.
func (w *waiter) giveUp(turn *turn, what turnAct) {
	begun := w.h.now()
	sent, err := w.repeat(func(ctx context.Context) error {
		return w.clientSession.Abandon(ctx, turn.place.Acquisition, []string{turn.key})
	}, nil)
	if err != nil {
		if what != turnGrant {
			w.missing(turn, what, turn.since)
		}
		if sent {
			w.missing(turn, turnRelease, begun)
		}
		w.fallWith(turn)
		return
	}
	w.note(turn, what, turn.since, turnAnswer{unknown: true})
	if what == turnAsk { // it may have been queued, and then granted
		w.note(turn, turnGrant, turn.since, turnAnswer{unknown: true})
	}
	w.released(turn, begun)
	w.turns.count(&w.turns.gaveUp)
	turn.since = 0
}

// release ends the turn. As in package locks its acquisition is abandoned if a request for it may arrive later, which would be granted
// once more.
func (w *waiter) release(turn *turn) {
	begun := w.h.now()
	sent, err := w.repeat(func(ctx context.Context) error {
		if turn.late {
			return w.clientSession.Abandon(ctx, turn.place.Acquisition, []string{turn.key})
		}
		return w.clientSession.Release(ctx, []driver.Held{{Key: turn.key, Token: turn.held}})
	}, nil)
	if err != nil {
		if sent {
			w.missing(turn, turnRelease, begun)
		}
		w.fallWith(turn)
		return
	}
	w.released(turn, begun)
}

// released notes a release that was answered. If the session may have ended before, which a release does not report, the key
// became free then.
func (w *waiter) released(turn *turn, begun int64) {
	if end := w.clientSession.earliestEnd(); end < w.h.now() {
		w.missing(turn, turnRelease, begun)
		w.add(turn, turnExpire, end, never, turnAnswer{never: true})
		w.stale = true
		return
	}
	w.note(turn, turnRelease, begun, turnAnswer{})
}

// undone notes a request that may have been granted, or queued and granted, to a client that did not hear of it, before the service lost
// its data. What the session brings back is what it has heard of.
func (w *waiter) undone(turn *turn, do turnAct, begun int64) {
	lost := *turn
	lost.id = w.turns.id()
	w.note(&lost, do, begun, turnAnswer{unknown: true})
	if do == turnAsk {
		w.note(&lost, turnGrant, begun, turnAnswer{unknown: true})
	}
	w.note(&lost, turnRelease, begun, turnAnswer{})
}

// missing notes a call without an answer: it may arrive until the session ends, and have no effect.
func (w *waiter) missing(turn *turn, do turnAct, begun int64) {
	w.add(turn, do, begun, never, turnAnswer{unknown: true, never: true})
	w.turns.count(&w.turns.unanswered)
}

// fallWith ends the session while it holds a key or waits for it, and begins another one.
func (w *waiter) fallWith(turn *turn) {
	w.stop()
	w.clientSession.ending(w.h.now())
	if w.ExpireSession != nil && w.random.IntN(2) == 0 {
		w.ExpireSession(w.t, w.clientSession.Session)
	}
	if turn.since > 0 && turn.do == turnAsk {
		w.add(turn, turnGrant, turn.since, never, turnAnswer{unknown: true, never: true})
	}
	if turn.held > 0 || turn.since > 0 {
		w.add(turn, turnExpire, w.clientSession.earliestEnd(), never, turnAnswer{never: true})
	}
	w.turns.count(&w.turns.fell)
	w.stale = false
	w.finish()
	w.begin()
}

// finish closes the session. If that is confirmed, nothing that it has asked for has an effect any more.
func (w *waiter) finish() {
	closes := w.closes()
	if w.close() == nil && closes {
		w.turns.over(w.clientSession.number)
	}
}

// closes reports whether the driver still has the session. One that has given it up leaves it to the server to expire.
func (w *waiter) closes() bool {
	select {
	case <-w.clientSession.Ended():
		return false
	default:
		return true
	}
}

// over notes that a session has ended by now, and with it what would never end otherwise.
func (h *turnHistory) over(session int) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, op := range h.ops {
		if op.Return != never || op.Input.(turnCall).session != session {
			continue
		}
		a := op.Output.(turnAnswer)
		a.never = false
		h.ops[i].Output, h.ops[i].Return = a, now
	}
}

// note records a call that was answered just now.
func (w *waiter) note(turn *turn, do turnAct, begun int64, a turnAnswer) {
	w.add(turn, do, begun, w.h.now(), a)
	switch {
	case do == turnGrant && !a.unknown:
		w.turns.count(&w.turns.inTurn)
	case a.token > 0:
		w.turns.count(&w.turns.atOnce)
	}
}

func (w *waiter) add(turn *turn, do turnAct, begun, ended int64, a turnAnswer) {
	c := turn.turnCall
	c.do = do
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.turns.clients++ // a client of its own: some of these operations overlap
	w.turns.ops = append(w.turns.ops, porcupine.Operation{ClientId: w.turns.clients, Input: c, Output: a, Call: begun, Return: ended})
}
