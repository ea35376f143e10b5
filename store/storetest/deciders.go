package storetest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A replica that decides late, with a stale cursor, opens nothing a second time and moves
// no cursor back. The ledger's key is what stops it.
func lateDecider(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first, err := s.decide(run("a", due(1), false))
	must(t, err)
	_, err = s.decide(run("a", due(2), false))
	must(t, err)

	late := s.second("two")
	got, err := late.decide(run("a", due(1), true), run("b", due(1), true))
	must(t, err)
	if len(got.Started) != 1 || got.Started[0].Job != "b" || len(got.Decisions[0].Triggers) != 0 {
		t.Errorf("started %+v, decided %+v", got.Started, got.Decisions)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} WHERE job='a'")
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers} WHERE job='a' AND at=?", due(1).UnixMicro())
	s.want("first task", s.DB.Text(t, "SELECT task_id FROM {triggers} WHERE job='a' AND at=?", due(1).UnixMicro()), first.Opened[0].ID)
	s.wantInt(due(2).UnixMicro(), "SELECT cursor_at FROM {jobs} WHERE name='a'")
	s.wantInt(due(3).UnixMicro(), "SELECT next_at FROM {jobs} WHERE name='a'")
	s.wantInt(0, "SELECT fence FROM {jobs} WHERE name='a'")
}

// Replicas that all decide the same due times decide each once.
func decidersTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	scenes := make([]*scene, 8)
	for i := range scenes {
		scenes[i] = s.second(string(rune('A' + i)))
	}
	const times = 10
	Together(t, len(scenes), func(ctx context.Context, i int) error {
		for n := 1; n <= times; n++ {
			request := scenes[i].deciding(func(states []ledger.JobState) (all []ledger.Decision) {
				for _, state := range states {
					if state.Name != "c" {
						all = append(all, run(state.Name, due(n), state.Name == "a"))
					}
				}
				return all
			})
			for len(request.Jobs) > 0 {
				got, err := decidedOf(scenes[i].Store.Decide(ctx, request))
				if err != nil {
					return err
				}
				request.Jobs = got.Busy
			}
		}
		return nil
	})
	for _, job := range []string{"a", "b"} {
		s.wantInt(times, "SELECT COUNT(*) FROM {tasks} WHERE job=?", job)
		s.wantInt(times, "SELECT COUNT(*) FROM {triggers} WHERE job=?", job)
		s.wantInt(due(times).UnixMicro(), "SELECT cursor_at FROM {jobs} WHERE name=?", job)
	}
	s.wantInt(times, "SELECT COUNT(DISTINCT token) FROM {tasks} WHERE job='a'")
	s.wantInt(times, "SELECT fence FROM {jobs} WHERE name='a'")
}

// With the guard, two replicas that decide for one stripe wait for each other.
func guard(t *testing.T, b *Bench) {
	s := newScene(t, b)
	neighbour := "b"
	for n := 0; ledger.Stripe(neighbour) != ledger.Stripe("a"); n++ {
		neighbour = "b" + strconv.Itoa(n)
	}
	b.DB.Exec(t, "UPDATE {jobs} SET name=? WHERE name='b'", neighbour)
	s.wantInt(64, "SELECT COUNT(*) FROM {stripes}")
	other := s.second("two")
	var inside atomic.Int32
	Together(t, 2, func(ctx context.Context, i int) error {
		me := []*scene{s, other}[i]
		request := me.deciding(func([]ledger.JobState) []ledger.Decision {
			if inside.Add(1) > 1 {
				t.Error("both decide at once")
			}
			time.Sleep(50 * time.Millisecond) // time for the other one to come in, if it can
			inside.Add(-1)
			return nil
		})
		request.Jobs, request.Guard = []string{"a", neighbour}[i:i+1], true
		_, err := decidedOf(me.Store.Decide(ctx, request))
		return err
	})
	if b.Dialect == store.SQLite { // there, decisions never overlap
		return
	}
	// No transaction waits for another stripe.
	apart := "c"
	for n := 0; ledger.Stripe(apart) == ledger.Stripe("a"); n++ {
		apart = "c" + strconv.Itoa(n)
	}
	b.DB.Exec(t, "UPDATE {jobs} SET name=? WHERE name='c'", apart)
	var asked []string
	outer := s.deciding(func([]ledger.JobState) []ledger.Decision {
		inner := other.deciding(func(states []ledger.JobState) []ledger.Decision {
			for _, state := range states {
				asked = append(asked, state.Name)
			}
			return nil
		})
		inner.Jobs, inner.Guard = []string{apart, neighbour}, true
		if got, err := decidedOf(other.Store.Decide(s.ctx(), inner)); err != nil || !slices.Equal(got.Busy, []string{neighbour}) || !slices.Equal(asked, []string{apart}) {
			t.Errorf("beside another stripe: busy are %q, asked about %q, %v", got.Busy, asked, err)
		}
		return nil
	})
	outer.Jobs, outer.Guard = []string{"a"}, true
	_, err := decidedOf(s.Store.Decide(s.ctx(), outer))
	must(t, err)
}

// A replica that decides what others left gets what is still due, and nothing else.
func overdueOnly(t *testing.T, b *Bench) {
	s := newScene(t, b)
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=? WHERE name='a'", time.Now().Add(24*time.Hour).UnixMicro())
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=1 WHERE name='b'")
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=0 WHERE name='c'") // never
	var asked []string
	request := s.deciding(func(states []ledger.JobState) []ledger.Decision {
		for _, state := range states {
			asked = append(asked, state.Name)
		}
		return nil
	})
	request.Overdue = true
	for len(request.Jobs) > 0 {
		got, err := decidedOf(s.Store.Decide(s.ctx(), request))
		must(t, err)
		request.Jobs = got.Busy
	}
	s.want("asked about", strings.Join(asked, " "), "b")
}

// In a pool that is paused, or not as the deciding replica has it, nothing is running from the start.
func heldBack(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for n, set := range []string{"max_running=1", "max_running=0, paused=1", "paused=0, hash='newer'", "hash=''", "hash='hash'", "paused=NULL"} {
		s.DB.Exec(t, "UPDATE {pools} SET "+set+" WHERE name='default'")
		got, err := s.decide(run("a", due(n+1), true))
		must(t, err)
		if held := n < 4; len(got.Opened) == 1 != held || len(got.Started) == 1 == held {
			t.Errorf("%s: %d started, %d opened", set, len(got.Started), len(got.Opened))
		}
	}
	s.wantInt(2, "SELECT fence FROM {jobs} WHERE name='a'")

	// Nor in a pool that neither of them has.
	s.DB.Exec(t, "UPDATE {pools} SET hash='' WHERE name='default'")
	request := s.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{run("a", due(9), true)} })
	request.Pools = nil
	if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) > 0 || len(got.Opened) != 1 {
		t.Errorf("in a pool that nobody has: %+v, %v", got, err)
	}
}

// What was decided before is left out, also where it has more keys than one statement may.
func manyTwice(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 11000
	again := ledger.Decision{Job: "a", Cursor: due(n), NextAt: due(n + 1)}
	for i := range n {
		again.Triggers = append(again.Triggers, ledger.Opening{Trigger: jobs.Trigger{
			Job: "a", At: due(i + 1), Cause: jobs.CauseCatchUp, Outcome: jobs.Skipped, Reason: "a test",
		}})
	}
	for i, left := range []int{n, 0} {
		got, err := s.decide(again)
		must(t, err)
		if len(got.Decisions[0].Triggers) != left {
			t.Errorf("time %d: %d due times are decided, want %d", i+1, len(got.Decisions[0].Triggers), left)
		}
	}
	s.wantInt(n, "SELECT COUNT(*) FROM {triggers}")
}
