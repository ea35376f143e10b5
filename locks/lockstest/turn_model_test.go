package lockstest

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The judge of turns is judged, as TestModel does it for tries.
func TestTurnModel(t *testing.T) {
	type op struct {
		from, to int64
		call     turnCall
		answer   turnAnswer
	}
	one, shared, two := turnKind{limit: 1}, turnKind{shared: true, limit: 1}, turnKind{limit: 2}
	// Each acquisition is of a session of its own, with the same number.
	at := func(do turnAct, from, to int64, id int, k turnKind, a turnAnswer) op {
		return op{from, to, turnCall{key: "a", do: do, session: id, id: id, kind: k}, a}
	}
	got := func(from, to int64, id int, k turnKind, token driver.Token) op {
		return at(turnAsk, from, to, id, k, turnAnswer{token: token})
	}
	queued := func(from, to int64, id int, k turnKind) op {
		return at(turnAsk, from, to, id, k, turnAnswer{queued: true})
	}
	granted := func(from, to int64, id int, k turnKind, token driver.Token) op {
		return at(turnGrant, from, to, id, k, turnAnswer{token: token})
	}
	unseenGrant := func(from, to int64, id int, k turnKind) op {
		return at(turnGrant, from, to, id, k, turnAnswer{unknown: true})
	}
	busy := func(from, to int64, id int, k turnKind) op { return at(turnTry, from, to, id, k, turnAnswer{}) }
	tried := func(from, to int64, id int, k turnKind, token driver.Token) op {
		return at(turnTry, from, to, id, k, turnAnswer{token: token})
	}
	released := func(from, to int64, id int) op { return at(turnRelease, from, to, id, turnKind{}, turnAnswer{}) }
	expired := func(from int64, id int) op {
		return at(turnExpire, from, never, id, turnKind{}, turnAnswer{never: true})
	}
	lost := func(o op) op {
		o.to, o.answer = never, turnAnswer{unknown: true, never: true}
		return o
	}
	for name, c := range map[string]struct {
		history []op
		legal   bool
	}{
		"one after the other":             {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 1), granted(3, 6, 2, one, 6)}, true},
		"either of two that came at once": {[]op{got(0, 1, 1, one, 5), queued(2, 4, 2, one), queued(3, 5, 3, one), released(6, 7, 1), granted(5, 8, 3, one, 6)}, true},
		"past one that gave up": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), queued(4, 5, 3, one), released(6, 7, 2), released(8, 9, 1),
			granted(5, 10, 3, one, 6)}, true},
		"past a dead one": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), queued(4, 5, 3, one), released(6, 7, 1), expired(8, 2),
			granted(5, 10, 3, one, 6)}, true},
		"a try after the queue is empty": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 2), released(6, 7, 1), tried(8, 9, 3, one, 6)}, true},
		"readers together":               {[]op{got(0, 1, 1, shared, 5), got(2, 3, 2, shared, 6), busy(4, 5, 3, one)}, true},
		"readers in any order of tokens": {[]op{got(0, 9, 1, shared, 6), got(2, 3, 2, shared, 5)}, true},
		"tokens of readers that fall":    {[]op{got(0, 1, 1, shared, 6), got(2, 3, 2, shared, 5)}, true},
		"a grant that nobody noticed": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, shared), queued(4, 5, 3, shared), released(6, 7, 1),
			unseenGrant(3, 12, 2, shared), granted(5, 8, 3, shared, 7), released(9, 12, 2)}, true},
		"readers whose turn has come, in any order": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, shared), queued(4, 5, 3, shared), released(6, 7, 1),
			granted(5, 8, 3, shared, 6), busy(9, 10, 4, shared), granted(3, 12, 2, shared, 7)}, true},
		"a place that is the first, and then granted": {[]op{queued(0, 1, 1, one), busy(2, 3, 2, one), granted(0, 4, 1, one, 5)}, true},
		"two permits": {[]op{got(0, 1, 1, two, 5), got(2, 3, 2, two, 6), queued(4, 5, 3, two), released(6, 7, 1), granted(5, 8, 3, two, 7)}, true},

		"busy behind a grant that nobody noticed": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 1), busy(6, 7, 3, one),
			unseenGrant(3, 12, 2, one), released(9, 12, 2), tried(13, 14, 4, one, 6)}, true},
		"busy after a place that was given up": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), unseenGrant(3, 6, 2, one), released(4, 6, 2), released(7, 8, 1),
			busy(9, 10, 3, one)}, false},
		"past a place that was not given up yet": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), queued(4, 5, 3, one), released(6, 7, 1), granted(5, 8, 3, one, 6),
			unseenGrant(3, 12, 2, one), released(10, 12, 2)}, false},

		"a lost answer that did nothing": {[]op{lost(got(0, 1, 1, one, 5)), tried(2, 3, 2, one, 6)}, true},
		"a lost answer that was a grant": {[]op{lost(got(0, 1, 1, one, 5)), busy(2, 3, 2, one), expired(4, 1), tried(5, 6, 2, one, 6)}, true},
		"a lost answer that was a place": {[]op{got(0, 1, 1, one, 5), lost(queued(2, 3, 2, one)), released(4, 5, 1), busy(6, 7, 3, one), expired(8, 2),
			tried(9, 10, 3, one, 6)}, true},
		"a lost answer that was a place, and then granted": {[]op{got(0, 1, 1, one, 5), lost(queued(2, 3, 2, one)), released(4, 5, 1), granted(3, 7, 2, one, 6),
			busy(8, 9, 3, one), released(10, 11, 2), tried(12, 13, 3, one, 7)}, true},
		"a lost answer that was a place before a reader": {[]op{got(0, 1, 1, one, 5), lost(queued(2, 3, 2, shared)), expired(4, 2), released(5, 6, 1), busy(7, 8, 3, one),
			busy(9, 10, 4, shared), tried(11, 12, 5, one, 6)}, true},
		"two lost answers that explain one": {[]op{lost(tried(0, 1, 1, two, 5)), lost(tried(2, 3, 2, two, 6)), expired(4, 1), expired(5, 2), busy(6, 7, 3, two),
			tried(8, 9, 4, one, 7)}, true},
		"a lost answer that explains one only": {[]op{lost(released(2, 3, 1)), got(0, 1, 1, one, 5), tried(4, 5, 2, one, 6), tried(6, 7, 3, one, 7)}, false},
		"overtaken":                            {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), queued(4, 5, 3, one), released(6, 7, 1), granted(5, 8, 3, one, 6)}, false},
		"overtaken by a try": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 1), tried(6, 7, 3, one, 6),
			granted(3, 20, 2, one, 7)}, false},
		"a cancelled waiter keeps its place": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 2), released(6, 7, 1), busy(8, 9, 3, one)}, false},
		"a dead waiter is served":            {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 2), released(6, 7, 1), granted(8, 9, 2, one, 6)}, false},
		"a reader over a waiting writer":     {[]op{got(0, 1, 1, shared, 5), queued(2, 3, 2, one), got(4, 5, 3, shared, 6)}, false},
		"a reader past a writer that waits":  {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), queued(4, 5, 3, shared), released(6, 7, 1), granted(5, 8, 3, shared, 6)}, false},
		"a permit past another": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, two), queued(4, 5, 3, two), released(6, 7, 1), granted(5, 8, 3, two, 6),
			busy(9, 10, 4, two)}, false},
		"a writer beside a reader":   {[]op{got(0, 1, 1, shared, 5), got(2, 3, 2, one, 6)}, false},
		"three of two":               {[]op{got(0, 1, 1, two, 5), got(2, 3, 2, two, 6), got(4, 5, 3, two, 7)}, false},
		"limits that differ":         {[]op{got(0, 1, 1, two, 5), got(2, 3, 2, turnKind{limit: 3}, 6)}, false},
		"busy for a free key":        {[]op{busy(0, 1, 1, one)}, false},
		"granted before it was free": {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), granted(3, 4, 2, one, 6), released(6, 7, 1)}, false},
		"a token that goes back":     {[]op{got(0, 1, 1, one, 5), queued(2, 3, 2, one), released(4, 5, 1), granted(3, 6, 2, one, 5)}, false},
		"a writer's token below a reader's": {[]op{got(0, 1, 1, shared, 5), got(2, 3, 2, shared, 8), queued(4, 5, 3, one), released(6, 7, 1), released(6, 7, 2),
			granted(5, 8, 3, one, 7)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for i, o := range c.history {
				history = append(history, porcupine.Operation{ClientId: i, Input: o.call, Output: o.answer, Call: o.from, Return: o.to})
			}
			wantLegal(t, turnModel, closed(history), c.legal)
			wantLegal(t, turnModel, unseen(closed(history)), c.legal)
			if result, _ := searchTurns(unseen(closed(history)), linearLimit); result == porcupine.Ok != c.legal {
				t.Errorf("searched: %s", result)
			}
		})
	}
}

// Many lost answers do not make the search long: one that explains nothing is not tried at each point of the history.
func TestTurnsWithManyLostAnswers(t *testing.T) {
	var history []porcupine.Operation
	add := func(do turnAct, from, to int64, id int, a turnAnswer) {
		c := turnCall{key: "a", do: do, session: id, id: id, kind: turnKind{limit: 1}}
		history = append(history, porcupine.Operation{ClientId: len(history), Input: c, Output: a, Call: from, Return: to})
	}
	lost := turnAnswer{unknown: true, never: true}
	id := 0
	for range 12 {
		id++
		add(turnAsk, 0, never, id, lost)
		add(turnGrant, 0, never, id, lost)
		add(turnExpire, 1, never, id, turnAnswer{never: true})
	}
	at := int64(10)
	for round := range 20 { // of four who come at once
		for n := range 4 {
			id++
			from := at + int64(n)
			add(turnAsk, from, at+20, id, turnAnswer{queued: true})
			add(turnGrant, from, at+40+int64(n), id, turnAnswer{token: driver.Token(10*round + n + 1)})
			add(turnRelease, at+40+int64(n), at+45+int64(n), id, turnAnswer{})
		}
		at += 100
	}
	legal := closed(history)
	add(turnTry, at, at+1, id+1, turnAnswer{token: 1}) // a token that goes back
	for _, c := range []struct {
		history []porcupine.Operation
		legal   bool
	}{{legal, true}, {closed(history), false}} {
		began := time.Now()
		wantLegal(t, turnModel, c.history, c.legal)
		t.Logf("%d operations in %v", len(c.history), time.Since(began))
	}
}

// Many places that were given up while others came do not make the search long, though each may have been granted before.
func TestTurnsWithManyPlacesGivenUp(t *testing.T) {
	var history []porcupine.Operation
	two := turnKind{limit: 2}
	add := func(do turnAct, from, to int64, id int, a turnAnswer) {
		c := turnCall{key: "a", do: do, session: id, id: id, kind: two}
		history = append(history, porcupine.Operation{ClientId: len(history), Input: c, Output: a, Call: from, Return: to})
	}
	id, token := 0, driver.Token(0)
	at := int64(0)
	for range 4 {
		var held []int
		for range 2 {
			id++
			token++
			held = append(held, id)
			add(turnAsk, at, at+1, id, turnAnswer{token: token})
			at += 2
		}
		for n := range int64(5) { // all at once, as when the machine stands still
			id++
			add(turnAsk, at+n, at+50+n, id, turnAnswer{queued: true})
			add(turnGrant, at+n, at+100+n, id, turnAnswer{unknown: true})
			add(turnRelease, at+60+n, at+100+n, id, turnAnswer{})
		}
		for n, held := range held {
			add(turnRelease, at+20+int64(n), at+80, held, turnAnswer{})
		}
		at += 200
	}
	legal := unseen(closed(history))
	add(turnTry, at, at+1, id+1, turnAnswer{token: 1}) // a token that goes back
	wantLegal(t, turnModel, legal, true)
	wantLegal(t, turnModel, unseen(closed(history)), false)
}
