package lockstest

import (
	mathrand "math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// plainTurnModel is turnModel without its shortcut: what was never answered has an effect at any point.
var plainTurnModel = func() porcupine.NondeterministicModel {
	m := turnModel
	m.Step = func(state, input, output any) []any {
		s, c, a := state.(turnState), input.(turnCall), output.(turnAnswer)
		states := s.follow(c, a)
		switch {
		case a.never && s.over:
			states = []turnState{s}
		case a.never:
			states = slices.DeleteFunc(states, s.equal)
		}
		var next []any
		for _, s := range states {
			next = append(next, s)
		}
		return next
	}
	return m
}()

// A history that the plain model accepts is never refused by the faster one.
func TestTurnsAsThePlainModelSays(t *testing.T) {
	random := mathrand.New(mathrand.NewPCG(1, 2)) //nolint:gosec // histories, not secrets
	legal, lost := 0, 0
	const histories = 20_000
	for range histories {
		history := closed(someTurns(random))
		if !porcupine.CheckOperations(plainTurnModel.ToModel(), history) {
			continue
		}
		legal++
		for _, op := range history {
			if a := op.Output.(turnAnswer); a.never {
				lost++
			}
		}
		if !porcupine.CheckOperations(turnModel.ToModel(), history) || !porcupine.CheckOperations(turnModel.ToModel(), unseen(history)) {
			for _, op := range history {
				t.Logf("%d to %d: %s", op.Call, op.Return, turnModel.DescribeOperation(op.Input, op.Output))
			}
			t.Fatal("this history is legal by the plain model")
		}
	}
	t.Logf("%d of %d histories are legal, with %d calls that were never answered", legal, histories, lost)
	if legal < histories/4 || lost < legal {
		t.Error("too little to compare")
	}
}

// someTurns is a short history of one key as a right service could give it; then perhaps one answer is changed. Tokens grow, as those of
// each service do: else a lost answer might explain one that goes back. Each acquisition is of a session of its own, with the same number.
func someTurns(random *mathrand.Rand) (history []porcupine.Operation) {
	tokenAt := func(n int) driver.Token { return driver.Token(n + 1) }
	kinds := []turnKind{{limit: 1}, {shared: true, limit: 1}, {limit: 2}}
	kinds = kinds[:1+random.IntN(len(kinds))]
	of := func(id int) turnCall {
		return turnCall{key: "a", session: id, id: id, kind: kinds[id%len(kinds)]}
	}
	state, id := turnState{}, 0
	for at := int64(100); len(history) < 9; at += 10 {
		c, a := of(id+1), turnAnswer{}
		parts := slices.Concat(state.holders, state.queue)
		if len(parts) > 0 && random.IntN(3) > 0 {
			c = of(parts[random.IntN(len(parts))].id)
			c.do = turnGrant + turnAct(random.IntN(3))
		} else {
			id++
			c.do = turnTry + turnAct(random.IntN(2))
		}
		if random.IntN(3) == 0 {
			a = turnAnswer{unknown: true, never: random.IntN(2) == 0}
		} else {
			a.token = tokenAt(len(history))
		}
		next := state.follow(c, a)
		if len(next) == 0 { // it is not the turn of this one: busy, or queued
			a = turnAnswer{queued: c.do == turnAsk}
			next = state.follow(c, a)
		}
		if len(next) == 0 {
			continue
		}
		state = next[random.IntN(len(next))]
		op := porcupine.Operation{ClientId: len(history), Input: c, Output: a, Call: at - random.Int64N(30), Return: at + random.Int64N(30)}
		if a.never {
			op.Return = never
		}
		history = append(history, op)
	}
	n := random.IntN(len(history))
	if c, a := history[n].Input.(turnCall), history[n].Output.(turnAnswer); random.IntN(2) == 0 {
		switch {
		case a.token == 0:
			a.token, a.queued = tokenAt(n), false
		case c.do == turnTry || c.do == turnAsk:
			a.token, a.queued = 0, c.do == turnAsk
		}
		history[n].Output = a
	}
	return history
}
