package lockstest

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	turnClients = 6
	turnKeys    = 3 // few, so that there are queues
	turnOps     = 250
)

// turns checks that one queue for each key could have given all answers that clients got: granted in the order of arrival,
// together or alone.
var turns = []testCase{
	{"turns", func(t *testing.T, s *suite) {
		seed := uint64(time.Now().UnixNano()) //nolint:gosec // a seed
		h := s.takeTurns(t, seed)
		result, info := porcupine.CheckOperationsVerbose(turnModel.ToModel(), h.ops, linearLimit)
		t.Logf("seed %d: %d operations, %d granted at once, %d in turn, %d places given up, %d sessions ended", seed, len(h.ops), h.atOnce, h.inTurn, h.gaveUp, h.fell)
		if h.atOnce < turnOps/10 || h.inTurn < turnOps/10 || h.gaveUp < turnClients || h.fell < turnClients {
			t.Error("too little happened to judge by")
		}
		if result != porcupine.Ok {
			t.Errorf("%s: no queue could have given these answers, or it was not found out; see %s", result, picture(t, turnModel, info, seed))
		}
	}},
}

// turnHistory has the calls and answers of several waiters.
type turnHistory struct {
	*history
	ids int // of acquisitions, so far

	atOnce, inTurn, gaveUp, fell int
}

// takeTurns runs the clients.
func (s *suite) takeTurns(t *testing.T, seed uint64) *turnHistory {
	h, ns := &turnHistory{history: newHistory()}, namespace()
	s.warm(t, ns)
	var working sync.WaitGroup
	for n := range turnClients {
		w := &waiter{
			contender: &contender{
				suite: s, t: t, h: h.history, namespace: ns, driver: s.client(t), held: map[int]driver.Token{},
				random: mathrand.New(mathrand.NewPCG(seed, uint64(n))), //nolint:gosec // a schedule, not a secret
			},
			turns: h,
		}
		working.Go(w.run)
	}
	working.Wait()
	return h
}

// waiter is one client that waits for keys, holds them for a moment, gives up, and sometimes loses its session.
type waiter struct {
	*contender
	turns *turnHistory
}

// turn is one acquisition of a key.
type turn struct {
	turnCall
	place driver.Place
	held  driver.Token // 0: it waits
	since int64        // when its place was asked for: its grant may come before the answer
}

func (w *waiter) run() {
	if !w.begin() {
		return
	}
	fall := turnOps/4 + w.random.IntN(turnOps/4)
	for n := 0; n < turnOps && !w.t.Failed(); n++ {
		w.act(n%fall == fall-1)
	}
	w.end()
}

// act takes one turn: ask, wait, hold, release. If it is to fall, its session ends before.
func (w *waiter) act(fall bool) {
	turn := w.next()
	if !fall && w.random.IntN(4) == 0 {
		w.ask(turn, turnTry, nil)
	} else {
		w.ask(turn, turnAsk, nil)
	}
	for again := w.random.IntN(3); ; again-- {
		if fall {
			w.fallWith(turn)
			return
		}
		if turn.held == 0 && turn.since > 0 {
			w.wait(turn)
		}
		if turn.held == 0 {
			return
		}
		time.Sleep(time.Duration(w.random.IntN(300)) * time.Microsecond)
		if again <= 0 {
			w.release(turn)
			return
		}
		turn = w.askAgain(turn)
	}
}

// next is a new acquisition. The first key is exclusive, the others are also held together.
func (w *waiter) next() *turn {
	key := w.random.IntN(turnKeys)
	kind := turnKind{limit: 1}
	if w.random.IntN(3) > 0 {
		kind = [turnKeys]turnKind{{limit: 1}, {shared: true, limit: 1}, {limit: 2}}[key]
	}
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.turns.ids++
	return &turn{
		turnCall: turnCall{key: name(key), session: w.clientSession.number, id: w.turns.ids, kind: kind},
		place:    driver.Place{Acquisition: rand.Text(), Key: name(key)},
	}
}

// ask asks for the turn, after it has released another one.
func (w *waiter) ask(turn *turn, do turnAct, release *turn) {
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	want := driver.Want{Key: turn.key, Shared: turn.kind.shared}
	if !want.Shared {
		want.Limit = turn.kind.limit
	}
	var held []driver.Held
	if release != nil {
		held = []driver.Held{{Key: release.key, Token: release.held}}
	}
	begun := w.h.now()
	var results []driver.Result
	var err error
	if do == turnTry {
		results, err = w.clientSession.TryAcquire(ctx, turn.place.Acquisition, []driver.Want{want})
	} else {
		results, err = w.clientSession.Queue().Acquire(ctx, turn.place.Acquisition, held, []driver.Want{want})
	}
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		w.t.Errorf("%s: %v", turn.key, err)
		return
	}
	r := results[0]
	if release != nil {
		w.note(release, turnRelease, begun, turnAnswer{})
	}
	turn.held = r.Token
	if r.Queued {
		turn.since = begun
	}
	w.note(turn, do, begun, turnAnswer{queued: r.Queued, token: r.Token})
}

// askAgain gives the key back and asks for it again, in one call.
func (w *waiter) askAgain(held *turn) *turn {
	turn := w.next()
	turn.key, turn.place.Key, turn.kind = held.key, held.key, held.kind
	w.ask(turn, turnAsk, held)
	return turn
}

// wait waits until the turn has come, or for a short time and gives up.
func (w *waiter) wait(turn *turn) {
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
				w.giveUp(turn)
				return
			}
			ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
			results, err := w.clientSession.Queue().Look(ctx, []driver.Place{turn.place})
			cancel()
			if err != nil {
				w.t.Errorf("look: %v", err)
				return
			}
			turn.held = results[0].Token
			timer.Reset(patience)
		}
	}
	w.note(turn, turnGrant, turn.since, turnAnswer{token: turn.held})
}

// giveUp abandons a place. It may have been granted a moment ago.
func (w *waiter) giveUp(turn *turn) {
	begun := w.h.now()
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	if err := w.clientSession.Queue().Abandon(ctx, turn.place.Acquisition, []string{turn.key}); err != nil {
		w.t.Errorf("abandon: %v", err)
		return
	}
	w.note(turn, turnGrant, turn.since, turnAnswer{unknown: true})
	w.note(turn, turnRelease, begun, turnAnswer{})
	w.turns.count(&w.turns.gaveUp)
	turn.since = 0
}

func (w *waiter) release(turn *turn) {
	begun := w.h.now()
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	if err := w.clientSession.Release(ctx, []driver.Held{{Key: turn.key, Token: turn.held}}); err != nil {
		w.t.Errorf("release: %v", err)
		return
	}
	w.note(turn, turnRelease, begun, turnAnswer{})
}

// fallWith ends the session while it holds a key or waits for it, and begins another one.
func (w *waiter) fallWith(turn *turn) {
	w.stop()
	w.clientSession.ending(w.h.now())
	if w.ExpireSession != nil && w.random.IntN(2) == 0 {
		w.ExpireSession(w.t, w.clientSession.Session)
	}
	if turn.since > 0 {
		w.add(turn, turnGrant, turn.since, never, turnAnswer{unknown: true})
	}
	if turn.held > 0 || turn.since > 0 {
		w.add(turn, turnExpire, w.clientSession.earliestEnd(), never, turnAnswer{})
	}
	w.turns.count(&w.turns.fell)
	w.again()
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

func (h *turnHistory) count(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
}
