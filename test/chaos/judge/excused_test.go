package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// What a fault excuses passes with the fault, and is found under the name of its promise without it.
func TestExcuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		without Invariant
		what    func(h *history.History) // happens
		because func(h *history.History) // excuses it
	}{
		{"a command that could not be ended", NoOverlap, orphan, func(h *history.History) {
			h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.ReplicaFrozen, history.HelperFrozen)
		}},
		{"an orphan that could not be ended", NoOverlap, func(h *history.History) { orphanOf(h, "once", 5*time.Second) }, func(h *history.History) {
			h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.HelperFrozen)
		}},
		{"what a command had started, whose helper was killed with its replica", NoOverlap, func(h *history.History) {
			orphan(h)
			h.Effects[len(h.Effects)-1].PID = 7
		}, func(h *history.History) { h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.HelperDown) }},
		{"an orphan that a command had started, whose helper was killed with its replica", NoOverlap, func(h *history.History) {
			orphanOf(h, "once", 5*time.Second)
			for i, e := range h.Effects {
				if e.What == history.Beat || e.What == history.End {
					h.Effects[i].PID = 7 // not the one that said that it starts
				}
			}
		}, func(h *history.History) { h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.HelperDown) }},
		{"mute without a store, and frozen", Degrades, func(h *history.History) {
			withoutStore(h)
			for i, p := range h.Probes {
				out := p.At.Before(h.Windows[0].Began) || p.At.After(h.Windows[0].Healed)
				h.Probes[i].Live, h.Probes[i].Ready = out, out
			}
		}, func(h *history.History) {
			also(h, h.Windows[0].Began, window, h.Windows[0].Replicas, history.ReplicaFrozen)
		}},
		{"late while the store is away from all", OnTime, lateInWindow(9 * time.Second), func(h *history.History) {
			strike(h, nil, history.StoreDown)
			withoutWork(h)
		}},
		{"late by what a frozen replica holds", OnTime, lateInWindow(1400 * time.Millisecond), func(h *history.History) {
			strike(h, h.Windows[0].Replicas, history.ReplicaFrozen)
		}},
		{"late on SQLite beside a frozen writer", OnTime, lateInWindow(8 * time.Second), func(h *history.History) {
			h.Run.Cell, h.Run.Format = "sqlite+redis", 0 // which does not have the holder of the file
			strike(h, h.Windows[0].Replicas, history.ReplicaFrozen)
		}},
		{"late while the lock is away and work waits", OnTime, lateInWindow(8 * time.Second), func(h *history.History) {
			h.Run.WhenDown = "wait"
			strike(h, nil, history.LockDown)
		}},
		{"late behind a catch-up that waits", OnTime, lateInWindow(3 * time.Second), func(h *history.History) {
			h.Run.Jobs[0].CatchUp = "all"
			before := 0
			for i, r := range h.Final.Triggers {
				if r.Job != "each" {
					continue
				}
				if dbTime(r.At).After(h.Windows[0].Began) {
					h.Final.Triggers[before].Cause, h.Final.Triggers[before].DecidedAt = "catch_up", r.DecidedAt
					return
				}
				before = i
			}
		}},
		{"late under two faults at once", OnTime, lateInWindow(4 * time.Second), func(h *history.History) {
			h.Windows[0].Pair = "flushall"
		}},
		{"late by what another cell does to the machine", OnTime, lateInWindow(3 * time.Second), strain},
		{"not ready by what another cell does to the machine", Recovers, func(h *history.History) {
			for i, p := range h.Probes {
				if p.Replica == "a" && p.At.After(h.Windows[0].Healed) && p.At.Before(h.Windows[0].Healed.Add(7*time.Second)) {
					h.Probes[i].Ready = false
				}
			}
		}, strain},
		{"late on a busy machine", OnTime, lateInWindow(1500 * time.Millisecond), func(h *history.History) { h.Run.Slack = time.Second }},
		{"late on a machine that starves a replica", OnTime, func(h *history.History) {
			h.Run.Slack = time.Second
			lateInWindow(3 * time.Second)(h)
		}, func(h *history.History) { mute(h, "", h.Windows[0].Began.Add(-time.Second), h.Windows[0].Healed) }},
		{"late by a clock of the database that was stepped", OnTime, lateInWindow(9 * time.Second), func(h *history.History) {
			strike(h, nil, history.StoreClock)
		}},
		{"a retry put off by a clock that was ahead", Conserved, putOff("waits"), func(h *history.History) { strike(h, nil, history.StoreClock) }},
		{"a retry put off by a clock that was ahead, and ready meanwhile", Conserved, putOff("ready"), func(h *history.History) {
			strike(h, nil, history.StoreClock)
		}},
		{"tasks behind a retry that is put off", Conserved, func(h *history.History) {
			putOff("waits")(h)
			putOff("keyed")(h)
			h.Run.Pools[0].Ordered = true
		}, func(h *history.History) { strike(h, nil, history.StoreClock) }},
		{"a catch-up that waits for its slot", Accounted, func(h *history.History) {
			last := h.Run.Ended.Add(-6 * time.Second)
			h.Final.Triggers = slices.DeleteFunc(h.Final.Triggers, func(r history.Row) bool { return r.Job == "each" && dbTime(r.At).After(last) })
			for i, j := range h.Final.Jobs {
				if j.Job == "each" {
					h.Final.Jobs[i].Cursor = last.UnixMicro()
				}
			}
		}, func(h *history.History) { h.Run.Jobs[0].CatchUp = "all" }},
		{"the own result of a lost attempt", OneEnd, func(h *history.History) {
			for i, r := range h.Final.Done {
				if r.ID == firstLost(h) {
					before, after := r, r
					after.State = "failed"
					h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: h.Run.Ended.UnixMicro(), Table: "done", Before: &before, After: &after})
					h.Final.Done[i] = after
					return
				}
			}
		}, func(h *history.History) {
			h.Audit[len(h.Audit)-1].After.Late = 1
		}},
		{"a stale finish that was such a result", StaleOwners, func(h *history.History) {
			r := h.Final.Done[0]
			h.Stale = append(h.Stale, history.Stale{What: "finish", TaskID: r.ID, Token: r.Token, Changed: true})
		}, func(h *history.History) { h.Final.Done[0].Late = 1 }},
		{"a stale write without an answer", StaleOwners, func(h *history.History) {
			h.Stale = append(h.Stale, history.Stale{What: "extend", TaskID: "t1", Token: 1})
		}, func(h *history.History) { h.Stale[len(h.Stale)-1].Error = "connection reset" }},
		{"a second task that a client asked for", OneStart, func(h *history.History) {
			c := h.Audit[firstChange(h, "tasks", "again")]
			r := *c.After
			r.ID, r.State, r.Token, r.Session = "copy", "ready", 0, ""
			h.Audit = append(h.Audit, history.Change{Seq: c.Seq, At: c.At, Table: "tasks", After: &r})
		}, func(h *history.History) {
			c := h.Audit[firstChange(h, "tasks", "again")]
			h.Asks = append(h.Asks, history.Ask{What: "retry", Target: c.After.ID, Answer: "ok"})
		}},
		{"a session lost with a frozen replica", Degrades, func(h *history.History) { dies(h, 3*time.Second) }, func(h *history.History) {
			strike(h, []string{other(h), h.Windows[0].Replicas[0]}, history.ReplicaFrozen)
			h.Windows[0].Began = began
		}},
		{"a silent replica on a busy machine", Degrades, func(h *history.History) {
			dies(h, 3*time.Second)
			h.Audit = append(h.Audit, history.Change{
				Seq: 1<<40 + 2, At: began.Add(9 * time.Second).UnixMicro(), Table: "attempts",
				After: &history.Row{TaskID: "t1", Replica: other(h), State: "lost", Token: 1},
			})
		}, func(h *history.History) { h.Run.Slack = time.Second }},
		{"an attempt whose time was over in a fault that spares", Degrades, func(h *history.History) {
			outage(h)
			expires(h, h.Windows[0].Healed.Add(time.Hour))
		}, func(h *history.History) { expires(h, h.Windows[0].Began.Add(time.Second)) }},
		{"a killed replica's task decided late on a busy machine, where no replica was ready before", Recovers, reapedLate, func(h *history.History) {
			h.Run.Slack = time.Millisecond
			for i, p := range h.Probes {
				h.Probes[i].Ready = p.Ready && (p.At.Before(h.Windows[0].Began) || p.At.After(h.Windows[0].Began.Add(6*time.Second)))
			}
		}},
		{"a killed replica's task decided late while the store is slow for all", Recovers, reapedLate, func(h *history.History) {
			also(h, h.Windows[0].Began, window, nil, history.StoreSlow)
		}},
		{"not ready while it restarts", Recovers, func(h *history.History) {
			for i, p := range h.Probes {
				if p.Replica == other(h) && p.At.After(h.Windows[0].Healed) && p.At.Before(h.Windows[0].Healed.Add(7*time.Second)) {
					h.Probes[i].Ready = false
				}
			}
		}, func(h *history.History) { h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.Restarts) }},
		{"not ready again on a busy machine", Recovers, func(h *history.History) {
			for i, p := range h.Probes {
				if p.Replica == other(h) && p.At.After(h.Windows[0].Healed.Add(time.Second)) && p.At.Before(h.Windows[0].Healed.Add(10*time.Second)) {
					h.Probes[i].Ready = false
				}
			}
		}, func(h *history.History) { h.Run.Slack = time.Second }},
		{"work that outlives the drain timeout", Drains, func(h *history.History) {
			p := drained(h)
			p.Told = p.Ended.Add(-8 * time.Second)
			task := "late"
			none(h, p.Replica)
			row := history.Row{ID: task, Pool: "once", State: "ready", CreatedAt: began.UnixMicro(), IdemKey: "late"}
			claimed := row
			claimed.State, claimed.Replica, claimed.Session, claimed.Token, claimed.Attempt = running, p.Replica, "s", 1, 1
			done := claimed
			done.State, done.Reason = "lost", "replica lost"
			at, end := p.Told.Add(-time.Second).UnixMicro(), p.Told.Add(6*time.Second).UnixMicro()
			h.Audit = append(h.Audit,
				history.Change{Seq: 1 << 40, At: at, Table: "tasks", After: &row},
				history.Change{Seq: 1 << 40, At: at, Table: "idempotency", After: &history.Row{TaskID: task, Pool: row.Pool, IdemKey: row.IdemKey}},
				history.Change{Seq: 1<<40 + 1, At: at, Table: "tasks", Before: &row, After: &claimed},
				history.Change{Seq: 1<<40 + 2, At: end, Table: "done", After: &done},
				history.Change{Seq: 1<<40 + 3, At: end, Table: "tasks", Before: &claimed})
			h.Final.Done = append(h.Final.Done, done)
			h.Asks = append(h.Asks, history.Ask{What: "enqueue", Target: "once", Key: "late", Answer: "ok", TaskIDs: []string{task}})
		}, func(h *history.History) { h.Audit[len(h.Audit)-2].After.Reason = "drained" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean(eventful)
			c.what(h)
			if r := Judge(h); !slices.Equal(r.Broken(), []Invariant{c.without}) {
				t.Fatalf("without the excuse, not %s alone:\n%s", c.without, r)
			}
			c.because(h)
			if r := Judge(h); !r.OK() {
				t.Errorf("with the excuse:\n%s", r)
			}
			if c.name == "a command that could not be ended" {
				if r := Judge(h); r.Overlaps != 1 || r.Longest == 0 {
					t.Errorf("the overlap is not counted:\n%s", r)
				}
			}
		})
	}
}

// orphan is a command that goes on working after its replica was killed.
func orphan(h *history.History) {
	var last history.Effect
	for _, e := range h.Effects {
		if e.What == history.Start && e.Job == "each" && e.Replica == h.Windows[0].Replicas[0] {
			last = e
		}
		if e.At.After(h.Windows[0].Began) {
			break
		}
	}
	h.Windows[0].Began = last.At.Add(200 * time.Millisecond)
	last.What, last.At = history.Beat, last.At.Add(1200*time.Millisecond)
	h.Effects = append(h.Effects, last)
}

// lateInWindow delays the decision of a due time that comes within the fault.
func lateInWindow(d time.Duration) func(h *history.History) {
	return func(h *history.History) {
		for i, r := range h.Final.Triggers {
			if dbTime(r.At).After(h.Windows[0].Began) && r.Job == "each" {
				h.Final.Triggers[i].DecidedAt += d.Microseconds()
				return
			}
		}
	}
}

// reapedLate makes the others reap a killed replica five seconds later than they did.
func reapedLate(h *history.History) {
	id := firstLost(h)
	for i, c := range h.Audit {
		if c.Table == "done" && c.After.ID == id || c.Table == "tasks" && c.After == nil && c.Before.ID == id {
			h.Audit[i].At += (5 * time.Second).Microseconds()
		}
	}
}

// putOff leaves a retry in a state, due in an hour, when the run has ended.
func putOff(state string) func(h *history.History) {
	return func(h *history.History) {
		i := slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.Pool == "mail" })
		r := h.Final.Done[i]
		r.State, r.RunAt = state, h.Run.Ended.Add(time.Hour).UnixMicro()
		h.Final.Tasks = append(h.Final.Tasks, r)
		h.Final.Done = slices.Delete(h.Final.Done, i, i+1)
	}
}

// strike adds a kind to the fault.
func strike(h *history.History, replicas []string, kinds ...history.Kind) {
	h.Windows[0].Replicas = replicas
	h.Windows[0].Kinds = append(h.Windows[0].Kinds, kinds...)
}

// other is a replica that the fault does not strike.
func other(h *history.History) string { return drained(h).Replica }

// withoutWork keeps the fault's time free of probes that would need explaining.
func withoutWork(h *history.History) {
	h.Probes = slices.DeleteFunc(h.Probes, func(p history.Probe) bool { return p.At.After(h.Windows[0].Began) && p.At.Before(h.Windows[0].Healed) })
}

// outage makes the fault one of the store, of eight seconds without heartbeats, and which costs
// nothing but a task of a job.
func outage(h *history.History) {
	h.Processes = nil
	w := &h.Windows[0]
	w.Kinds, w.Replicas, w.Spares = []history.Kind{history.StoreDown}, nil, true
	withoutWork(h)
	h.Probes = slices.DeleteFunc(h.Probes, func(p history.Probe) bool { return !p.Ready })
	for _, c := range h.Audit {
		if c.Table == "attempts" {
			c.After.State = "failed"
		}
	}
	was := history.Row{ID: "s", Replica: lostIn(h), Beat: 7}
	beat := was
	beat.Beat = 8
	mute(h, "", w.Began, w.Healed)
	h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: w.Began.UnixMicro(), Table: "sessions", Before: &was, After: &beat})
}

// expires gives the lost task another may_run_until.
func expires(h *history.History, until time.Time) {
	id := firstLost(h)
	for _, c := range h.Audit {
		if c.Table == "tasks" && c.After != nil && c.After.ID == id {
			c.After.Until = until.UnixMicro()
		}
	}
}

// lostIn is the replica that had the lost task.
func lostIn(h *history.History) string {
	id := firstLost(h)
	return h.Final.Done[slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.ID == id })].Replica
}

// strain lets another cell take the machine's processors while this one has its fault.
func strain(h *history.History) {
	h.Windows = append(h.Windows, history.Window{
		Nemesis: "busy-cores elsewhere", Elsewhere: true,
		Began: h.Windows[0].Began, Healed: h.Windows[0].Healed.Add(7 * time.Second), Applied: true,
	})
}
