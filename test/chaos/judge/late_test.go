package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// A fault excuses what is late because of it, and nothing for ever.
func TestExcusesEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   Invariant
		also   []Invariant
		mutate func(h *history.History)
	}{
		{"decided long after the store is back", OnTime, []Invariant{Recovers}, lateAfterOutage},
		{"on time again long after the next fault began", Recovers, []Invariant{OnTime}, func(h *history.History) {
			lateAfterOutage(h)
			also(h, h.Windows[0].Healed.Add(2*time.Second), time.Second, nil, history.LockDown)
		}},
		{"late before the store went away", OnTime, nil, func(h *history.History) {
			strike(h, nil, history.StoreDown)
			withoutWork(h)
			i := lastBefore(h, "each", h.Windows[0].Began.Add(-2500*time.Millisecond))
			h.Final.Triggers[i].DecidedAt += 4_000_000
		}},
		{"started late on a healthy day", OnTime, nil, func(h *history.History) { startLate(h, began, 1200*time.Millisecond) }},
		{"started late beside a fault that strikes others", OnTime, nil, func(h *history.History) {
			w := &h.Windows[0]
			e := startLate(h, w.Began, 1200*time.Millisecond)
			w.Began = e.At.Add(-2 * time.Second)
		}},
		{"started for ever late under a fault that strikes its replica", OnTime, nil, func(h *history.History) {
			e := startLate(h, h.Windows[0].Healed, 9*time.Second)
			also(h, e.ScheduledAt.Add(-time.Second), time.Second, []string{e.Replica}, history.Restarts)
		}},
		{"late on SQLite beside a frozen reader", OnTime, nil, func(h *history.History) {
			h.Run.Cell = "sqlite+redis"
			strike(h, h.Windows[0].Replicas, history.ReplicaFrozen)
			lateInWindow(1400 * time.Millisecond)(h)
		}},
		{"late beside a slow replica for longer than it can hold rows", OnTime, nil, func(h *history.History) {
			strike(h, h.Windows[0].Replicas, history.StoreSlow)
			lateInWindow(2600 * time.Millisecond)(h)
		}},
		{"started late by a replica whose store is slow", OnTime, []Invariant{Recovers}, func(h *history.History) {
			e := startLate(h, began, 5*time.Second)
			also(h, e.ScheduledAt.Add(-time.Second), 7*time.Second, []string{e.Replica}, history.StoreSlow)
		}},
		{"started late by a replica that stops", OnTime, []Invariant{Recovers}, func(h *history.History) {
			e := startLate(h, began, 5*time.Second)
			also(h, e.ScheduledAt.Add(-time.Second), time.Second, []string{e.Replica}, history.Restarts)
		}},
		{"later than a far store excuses", OnTime, []Invariant{Recovers}, func(h *history.History) {
			also(h, h.Windows[0].Began, window, nil, history.StoreFar)
			lateInWindow(9 * time.Second)(h)
		}},
		{"late after a far store was near again", OnTime, []Invariant{Recovers}, func(h *history.History) {
			also(h, h.Windows[0].Began, time.Second, nil, history.StoreFar)
			lateInWindow(9 * time.Second)(h)
		}},
		{"a loss because of a far store", Degrades, nil, func(h *history.History) {
			h.Windows[0].Kinds, h.Windows[0].Replicas, h.Processes = []history.Kind{history.StoreFar}, nil, nil
			h.Probes = slices.DeleteFunc(h.Probes, func(p history.Probe) bool { return !p.Ready })
			expires(h, h.Windows[0].Healed.Add(time.Hour))
		}},
		{"no start after a step of the database's clock", Recovers, []Invariant{OneEnd}, func(h *history.History) {
			strike(h, nil, history.StoreClock)
			from := h.Windows[0].Healed
			h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool {
				return e.Job == "each" && e.At.After(from) && e.At.Before(from.Add(9*time.Second))
			})
		}},
		{"only starts by hand after a step of the database's clock", Recovers, []Invariant{Accounted, OneStart, Slots}, func(h *history.History) {
			strike(h, nil, history.StoreClock)
			for i, r := range h.Final.Triggers {
				if r.Job == "each" && dbTime(r.At).After(h.Windows[0].Healed) {
					h.Final.Triggers[i].Seq = 1
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean(eventful)
			c.mutate(h)
			r := Judge(h)
			if !slices.Contains(r.Broken(), c.want) {
				t.Errorf("%s was not found:\n%s", c.want, r)
			}
			for _, i := range r.Broken() {
				if i != c.want && !slices.Contains(c.also, i) {
					t.Errorf("%s is not broken:\n%s", i, r)
				}
			}
		})
	}
}

// What is late because of a fault is excused until it is over.
func TestLateExcuses(t *testing.T) {
	for _, c := range []struct {
		name          string
		what, because func(h *history.History)
	}{
		{"beside a process frozen with the file of SQLite locked", func(h *history.History) {
			h.Run.Cell = "sqlite+redis"
			lateInWindow(9 * time.Second)(h)
		}, func(h *history.History) { strike(h, h.Windows[0].Replicas, history.ReplicaFrozen, history.StoreHeld) }},
		{"beside a slow replica that holds rows twice", lateInWindow(2400 * time.Millisecond), func(h *history.History) {
			strike(h, h.Windows[0].Replicas, history.StoreSlow)
		}},
		{"where the store is far away", lateInWindow(7 * time.Second), func(h *history.History) { also(h, h.Windows[0].Began, window, nil, history.StoreFar) }},
		{"while the store is away again before it had to be on time", lateAfterOutage, func(h *history.History) {
			also(h, h.Windows[0].Healed.Add(2*time.Second), 3*time.Second, nil, history.StoreDown)
		}},
		{"started late in a pool that is full", func(h *history.History) { startLate(h, began, 3*time.Second) }, func(h *history.History) {
			h.Run.Pools = append(h.Run.Pools, history.Pool{Name: "default", MaxRunning: 4, Lane: "http"})
		}},
		{"after a step of the database's clock while time is still ahead", func(h *history.History) {
			strike(h, nil, history.StoreClock)
			from := h.Windows[0].Healed
			for i, e := range h.Effects {
				if e.Job == "each" && e.At.After(from) {
					h.Effects[i].ScheduledAt = e.ScheduledAt.Add(-time.Hour)
				}
			}
		}, func(h *history.History) { h.Windows[0].Ahead = time.Hour }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean(eventful)
			c.what(h)
			if r := Judge(h); r.OK() {
				t.Fatalf("without the excuse:\n%s", r)
			}
			c.because(h)
			if r := Judge(h); !r.OK() {
				t.Errorf("with the excuse:\n%s", r)
			}
		})
	}
}

// lateAfterOutage has the store away for a second, and a due time of it decided far too late.
func lateAfterOutage(h *history.History) {
	strike(h, nil, history.StoreDown)
	withoutWork(h)
	h.Windows[0].Healed = h.Windows[0].Began.Add(time.Second)
	lateInWindow(9 * time.Second)(h)
}

// also has another fault strike.
func also(h *history.History, began time.Time, lasts time.Duration, replicas []string, kinds ...history.Kind) {
	h.Windows = append(h.Windows, history.Window{
		Nemesis: "also", Kinds: kinds, Replicas: replicas, Began: began, Healed: began.Add(lasts), Applied: true,
	})
}

// lastBefore is the last row of a job that was due before a moment.
func lastBefore(h *history.History, job string, at time.Time) (last int) {
	for i, r := range h.Final.Triggers {
		if r.Job == job && dbTime(r.At).Before(at) {
			last = i
		}
	}
	return last
}

// startLate delays the first request of "again" after a moment, and its task's end.
func startLate(h *history.History, after time.Time, d time.Duration) *history.Effect {
	for i := range h.Effects {
		if e := &h.Effects[i]; e.Job == "again" && e.Attempt == 1 && e.At.After(after) {
			e.At = e.At.Add(d)
			for i, c := range h.Audit {
				if c.Table == "done" && c.After.ID == e.TaskID || c.Table == "tasks" && c.After == nil && c.Before.ID == e.TaskID {
					h.Audit[i].At += d.Microseconds()
				}
			}
			return e
		}
	}
	panic("no start")
}

// With when_down: wait nothing is claimed while the lock service is away for longer than a lease lasts.
func TestWaiting(t *testing.T) {
	for when, broken := range map[string]bool{"wait": true, "store": false} {
		h := clean(eventful)
		h.Run.WhenDown, h.Run.LockTTL = when, time.Second
		strike(h, nil, history.LockDown, history.LockGone)
		found := slices.ContainsFunc(Judge(h).Violations, func(v Violation) bool { return strings.Contains(v.Text, "with when_down wait") })
		if found != broken {
			t.Errorf("%s: found %v", when, found)
		}
	}
}
