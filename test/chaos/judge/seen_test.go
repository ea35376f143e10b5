package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// A task starts again only for a failure or a loss that is in the record, as its policy allows.
func TestStartsAgain(t *testing.T) {
	ends := func(state string) func(h *history.History) {
		return func(h *history.History) {
			for _, c := range h.Audit {
				if c.Table == "attempts" {
					c.After.State = state
				}
			}
		}
	}
	fails := func(h *history.History) {
		for i := range h.Run.Pools {
			h.Run.Pools[i].OnLost, h.Run.Pools[i].Retries = "fail", 3
		}
	}
	for _, d := range []falseReason{
		{"after nothing", OneStart, "0 failures and 0 losses", func(h *history.History) {
			h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool { return c.Table == "attempts" })
		}, nil, nil},
		{"after a loss, with on_lost: fail and retries", OneStart, "and 1 losses", fails, nil, ends("failed")},
		{"after a loss that came later", OneStart, "0 failures and 0 losses", func(h *history.History) {
			for i, c := range h.Audit {
				if c.Table == "attempts" {
					h.Audit[i].At += time.Second.Microseconds()
				}
			}
		}, nil, nil},
		{"after a failure, without retries", OneStart, "1 failures", func(h *history.History) {
			ends("failed")(h)
			for i := range h.Run.Pools {
				h.Run.Pools[i].Retries = 0
			}
		}, nil, func(h *history.History) { h.Run.Pools[0].Retries = 1 }},
	} {
		t.Run(d.name, d.test)
	}
}

// Requests as targets saw them show the order of claims.
func TestLanes(t *testing.T) {
	two := func(h *history.History) (a, b *history.Effect) {
		var all []*history.Effect
		for i, e := range h.Effects {
			if e.What == history.Fenced && e.Job == "again" {
				all = append(all, &h.Effects[i])
			}
		}
		return all[1], all[2]
	}
	swap := func(h *history.History) {
		a, b := two(h)
		*a, *b = *b, *a
	}
	for _, d := range []falseReason{
		{"refused, without an earlier attempt", Slots, "the target refused", func(h *history.History) {
			e, _ := two(h)
			e.Refused = true
			h.Effects = append(h.Effects, history.Effect{What: history.Open, Job: e.Job, TaskID: e.TaskID, Attempt: e.Attempt, Token: e.Token, At: h.Run.Ended})
			forgive(h, e.TaskID)
		}, nil, nil},
		{"taken after a larger one", Slots, "the target took", swap, nil, func(h *history.History) {
			_, stale := two(h)
			stale.Refused = true
			forgive(h, stale.TaskID)
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			h := clean(eventful)
			d.what(h)
			found(t, h, d.want, d.text, true)
			if d.because != nil {
				d.because(h)
				found(t, h, d.want, d.text, false)
			}
		})
	}
	t.Run("a token of two attempts", func(t *testing.T) {
		h := clean(eventful)
		a, b := two(h)
		b.Token = a.Token
		found(t, h, Slots, "both", true)
	})
	t.Run("a small token that was given later", func(t *testing.T) {
		h := clean(eventful)
		a, b := two(h)
		first, second := *a, *b
		for i, c := range h.Audit { // the claims change places
			for _, r := range []*history.Row{c.Before, c.After} {
				switch {
				case r == nil:
				case r.ID == first.TaskID:
					h.Audit[i].Seq += 1 << 40
				}
			}
		}
		*a, *b = second, first
		b.Refused = true
		found(t, h, Slots, "was given later", true)
	})
}

// forgive lets a task not have succeeded.
func forgive(h *history.History, id string) {
	for _, c := range h.Audit {
		if c.Table == "done" && c.After.ID == id {
			c.After.State = "failed"
		}
	}
}

// found checks that the judge has seen what it must, or must not.
func found(t *testing.T, h *history.History, i Invariant, text string, want bool) {
	t.Helper()
	r := Judge(h)
	if got := r.has(i, text); got != want {
		t.Errorf("%s %q: found %t, and it should be %t:\n%s", i, text, got, want, r)
	}
}

// A drain that takes too long is not excused by a fault that comes then; one that a fault meets is.
func TestDrainIntoAFault(t *testing.T) {
	for _, c := range []struct {
		began time.Duration // of the fault, before the end
		want  bool
	}{{3 * time.Second, true}, {22 * time.Second, false}} {
		h := clean(eventful)
		p := drained(h)
		p.Told = p.Ended.Add(-25 * time.Second)
		none(h, p.Replica)
		h.Windows = append(h.Windows, history.Window{
			Nemesis: "cut", Kinds: []history.Kind{history.StoreSlow}, Replicas: []string{p.Replica}, Began: p.Ended.Add(-c.began), Healed: p.Ended, Applied: true,
		})
		found(t, h, Drains, "to stop, and", c.want)
	}
}

// A twin is no process of its replica: that it ended excuses nothing.
func TestTwinExcusesNothing(t *testing.T) {
	for _, twin := range []bool{true, false} {
		h := clean(eventful)
		dies(h, 3*time.Second)
		h.Processes = append(h.Processes, history.Process{
			Replica: other(h), Started: began.Add(5 * time.Second), Ended: began.Add(6 * time.Second), Exit: 1, How: "ended", Twin: twin,
		})
		found(t, h, Degrades, "no fault had struck it", twin)
	}
}

// An attempt that had to end while a frozen replica had SQLite's write lock is excused where its own
// replica was not heard of, and nowhere else; nor beside one that froze without the lock.
func TestLossBesideAFrozenWriter(t *testing.T) {
	for _, c := range []struct {
		cell   string
		held   []history.Kind
		silent bool
		want   bool
	}{
		{"sqlite+redis", []history.Kind{history.StoreHeld}, true, false},
		{"sqlite+redis", []history.Kind{history.StoreHeld}, false, true},
		{"sqlite+redis", nil, true, true},
		{"mariadb+redis", nil, true, true},
	} {
		h := clean(eventful)
		h.Run.Cell = c.cell
		w := &h.Windows[0]
		h.Processes, w.Kinds = nil, append(c.held, history.ReplicaFrozen)
		lost := lostIn(h)
		w.Replicas = slices.DeleteFunc(slices.Clone(h.Run.Replicas), func(r string) bool { return r == lost })[:1]
		for at := w.Began; !c.silent && at.Before(w.Healed); at = at.Add(500 * time.Millisecond) {
			was := history.Row{ID: "s", Replica: lost, Beat: at.UnixMicro()}
			is := was
			is.Beat++
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: at.UnixMicro(), Table: "sessions", Before: &was, After: &is})
		}
		expires(h, w.Began.Add(time.Second))
		found(t, h, Degrades, "task "+firstLost(h), c.want)
	}
}

// A run that has not seen enough says nothing, however good it looks.
func TestSeenTooLittle(t *testing.T) {
	stale := func(what string) func(h *history.History) {
		return func(h *history.History) {
			h.Stale = slices.DeleteFunc(h.Stale, func(s history.Stale) bool { return s.What == what })
		}
	}
	for _, d := range []falseReason{
		{"a stale owner that never gets an answer", NotVacuous, "answers to a stale finish", func(h *history.History) {
			for i := range h.Stale {
				h.Stale[i].Error = "connection refused"
			}
		}, nil, nil},
		{"no stale handback", NotVacuous, "answers to a stale handback", stale("handback"), nil, nil},
		{"no stale extend", NotVacuous, "answers to a stale extend", stale("extend"), nil, nil},
		{"no stale report", NotVacuous, "answers to a stale report", stale("report"), nil, nil},
		{"no stale beat", NotVacuous, "answers to a stale beat", stale("beat"), nil, func(h *history.History) {
			h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool { return c.Table == "sessions" && c.After.Dead != 0 })
		}},
		{"no stale release", NotVacuous, "answers to a stale release", stale("release"), nil, nil},
		{"no locks", NotVacuous, "looks at locks", func(h *history.History) { h.Holds = nil }, nil, nil},
		{"no waits", NotVacuous, "waits that were queued", func(h *history.History) { h.Waits = nil }, nil, func(h *history.History) { h.Run.Cell = "mariadb+row" }},
		{"a victim without work", NotVacuous, "ran no command", func(h *history.History) {
			h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool {
				killed := h.Windows[0].Began
				return e.What == history.Start && e.Replica == h.Windows[0].Replicas[0] && e.At.Before(killed) && e.At.After(killed.Add(-7*time.Second))
			})
		}, nil, nil},
	} {
		t.Run(d.name, d.test)
	}
	t.Run("clients that never pause", func(t *testing.T) {
		h := lasting(1, 3*time.Minute)
		found(t, h, NotVacuous, "", false)
		h.Asks = slices.DeleteFunc(h.Asks, func(a history.Ask) bool { return a.What == "pause" })
		found(t, h, NotVacuous, "0 times that pause worked", true)
	})
}

// Status 500 is for what no program should do.
func TestInternalErrors(t *testing.T) {
	h := clean(eventful)
	h.Asks[0].Status = 500
	found(t, h, Clean, "answered 500", true)
	h.Asks[0].Status = 503
	found(t, h, Clean, "", false)
}
