package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Each broken promise is found under its own name, and under no other unless the case says so.
func TestBrokenPromises(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   Invariant
		also   []Invariant // what is broken with it
		mutate func(h *history.History)
	}{
		{"a due time without a row", Accounted, nil, func(h *history.History) {
			i := firstTrigger(h, "each", "skipped", "ran")
			h.Final.Triggers = slices.Delete(h.Final.Triggers, i, i+1)
		}},
		{"the last due times without a row", Accounted, nil, func(h *history.History) {
			h.Final.Triggers = slices.DeleteFunc(h.Final.Triggers, func(r history.Row) bool { return dbTime(r.At).After(h.Run.Ended.Add(-6 * time.Second)) })
		}},
		{"a due time with two rows", Accounted, nil, func(h *history.History) {
			r := h.Final.Triggers[firstTrigger(h, "slow", "skipped")]
			h.Final.Triggers = append(h.Final.Triggers, r)
		}},
		{"a row for no due time", Accounted, nil, func(h *history.History) {
			r := h.Final.Triggers[firstTrigger(h, "slow", "skipped")]
			r.At += 1000
			h.Final.Triggers = append(h.Final.Triggers, r)
		}},
		{"a range that counts wrongly", Accounted, nil, func(h *history.History) {
			i := firstTrigger(h, "slow", "skipped")
			h.Final.Triggers[i].Count = 2
		}},
		{"an end without a reason", Accounted, nil, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "skipped")].Reason = ""
		}},
		{"missed within the grace", Accounted, nil, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "skipped")].Outcome = "missed"
		}},
		{"open for ever", Accounted, nil, func(h *history.History) {
			r := &h.Final.Triggers[firstTrigger(h, "each", "ran")]
			r.Outcome, r.Result, r.FinishedAt = "", "", 0
		}},
		{"skipped for a task that is not there", Accounted, nil, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "skipped")].Reason = openedFirst(history.Row{At: began.UnixMicro(), TaskID: "t0"})
		}},
		{"skipped for a task that ended long ago", Accounted, nil, func(h *history.History) {
			last := lastSkipped(h, "slow")
			h.Final.Triggers[last].Reason = openedFirst(h.Final.Triggers[firstTrigger(h, "slow", "ran")])
		}},
		{"skipped for a suspension without a request", Accounted, nil, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "skipped")].Reason = "suspended"
		}},
		{"run too late for its policy", Accounted, []Invariant{OnTime, Recovers}, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "ran")].DecidedAt += 11_000_000
		}},
		{"a trigger of an unknown job", Accounted, nil, func(h *history.History) {
			h.Final.Triggers = append(h.Final.Triggers, history.Row{Job: "other", At: 1, Outcome: "ran"})
		}},

		{"an attempt started twice", OneStart, nil, func(h *history.History) {
			i := firstEffect(h, history.Fenced, "again")
			h.Effects = slices.Insert(h.Effects, i, h.Effects[i])
		}},
		{"a second start with on_lost: fail", OneStart, nil, func(h *history.History) {
			for i := range h.Run.Pools {
				h.Run.Pools[i].OnLost, h.Run.Pools[i].Retries = "fail", 0
			}
		}},
		{"a start before the claim", OneStart, nil, func(h *history.History) {
			h.Effects[firstEffect(h, history.Start, "each")].At = began.Add(-900 * time.Millisecond)
		}},
		{"a start without a claim", OneStart, []Invariant{OneEnd}, func(h *history.History) {
			h.Effects[firstEffect(h, history.Fenced, "")].Token = 77
		}},
		{"two tasks for one due time", OneStart, []Invariant{Slots}, func(h *history.History) {
			c := h.Audit[firstChange(h, "tasks", "each")]
			r := *c.After
			r.ID, r.State, r.Token, r.Session = "copy", "ready", 0, ""
			h.Audit = append(h.Audit, history.Change{Seq: c.Seq, At: c.At, Table: "tasks", After: &r})
		}},

		{"two tasks of a forbid job", Slots, nil, func(h *history.History) {
			c := h.Audit[firstChange(h, "tasks", "each")]
			r := *c.After
			r.ID, r.At, r.Seq, r.State, r.Token, r.Session = "manual", r.At+5, 1, "ready", 0, ""
			h.Audit = append(h.Audit, history.Change{Seq: c.Seq, At: c.At, Table: "tasks", After: &r})
		}},
		{"more than max_running", Slots, nil, func(h *history.History) {
			for i := range h.Run.Pools {
				h.Run.Pools[i].MaxRunning = 1
			}
		}},
		{"more starts than the rate lets", Slots, nil, func(h *history.History) {
			for i := range h.Run.Pools {
				h.Run.Pools[i].Rate, h.Run.Pools[i].Burst = 1, 1
			}
		}},
		{"more with one key than may at once", Slots, nil, func(h *history.History) {
			withKey(h, func(p *history.Pool) { p.PerKey = 1 })
		}},
		{"more starts with one key than the rate lets", Slots, nil, func(h *history.History) {
			withKey(h, func(p *history.Pool) { p.KeyRate, p.KeyBurst = 1, 1 })
		}},
		{"more of a kind than may at once", Slots, nil, func(h *history.History) {
			withKind(h, history.Limits{MaxRunning: 1})
		}},
		{"more starts of a kind than the rate lets", Slots, nil, func(h *history.History) {
			withKind(h, history.Limits{Rate: 1, Burst: 1})
		}},
		{"a task before one of its key that was enqueued first", Slots, nil, func(h *history.History) {
			withKey(h, func(p *history.Pool) { p.Ordered = true })
		}},
		{"an older token after a newer one", Slots, nil, func(h *history.History) {
			a, b := -1, -1
			for i, e := range h.Effects {
				if e.What != history.Fenced || e.Job != "again" {
					continue
				}
				if a, b = b, i; a >= 0 {
					break
				}
			}
			h.Effects[a], h.Effects[b] = h.Effects[b], h.Effects[a]
		}},

		{"commands that overlap", NoOverlap, nil, func(h *history.History) {
			e := h.Effects[firstEffect(h, history.Start, "each")]
			e.What, e.At = history.Beat, e.At.Add(1200*time.Millisecond)
			h.Effects = append(h.Effects, e)
		}},
		{"two attempts of one task that overlap", NoOverlap, nil, func(h *history.History) {
			e := h.Effects[firstEffect(h, history.Start, "once pool")]
			e.What, e.Attempt, e.Token = history.Beat, e.Attempt+1, e.Token+1
			h.Effects = append(h.Effects, e)
		}},
		{"commands with one lock that overlap", NoOverlap, nil, func(h *history.History) {
			h.Run.Jobs[0].Lock, h.Run.Jobs[1].Lock = "ledger", "ledger"
		}},
		{"a task and a job with one lock that overlap", NoOverlap, nil, func(h *history.History) {
			h.Run.Jobs[1].Lock, h.Run.Pools[1].Lock = "ledger", "ledger"
		}},
		{"an orphan beside a killed replica", NoOverlap, nil, func(h *history.History) {
			w := h.Windows[0]
			for _, e := range h.Effects {
				if e.What == history.Start && e.Job == "each" && e.At.Before(w.Began.Add(-time.Second)) {
					last := e
					last.What, last.At = history.Beat, w.Began.Add(3*time.Second)
					h.Effects = append(h.Effects, last)
					return
				}
			}
		}},
		{"a command that outlives its replica and its helper", NoOverlap, nil, func(h *history.History) {
			h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.HelperDown)
			orphan(h)
		}},
		{"what a command started after its replica was back", NoOverlap, nil, func(h *history.History) {
			w := &h.Windows[0]
			w.Kinds = append(w.Kinds, history.HelperDown)
			i := slices.IndexFunc(h.Effects, func(e history.Effect) bool {
				return e.What == history.Start && e.Job == "each" && e.Replica == w.Replicas[0] && e.At.After(w.Healed)
			})
			last := h.Effects[i]
			last.What, last.At, last.PID = history.Beat, last.At.Add(1200*time.Millisecond), 7
			h.Effects = append(h.Effects, last)
		}},
		{"an orphan that outlives its row", NoOverlap, nil, func(h *history.History) {
			orphanOf(h, "once", 3*time.Second+time.Millisecond)
		}},

		{"a token twice", Tokens, nil, func(h *history.History) {
			claimed := claims(h, "again")
			setToken(h, claimed[1].ID, claimed[1].Token, claimed[0].Token)
		}},
		{"a fence that moves back", Tokens, nil, func(h *history.History) {
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: h.Run.Ended.UnixMicro(), Table: "jobs", Before: &history.Row{Job: "each", Fence: 5}, After: &history.Row{Job: "each", Fence: 4}})
		}},
		{"a cursor that moves back", Tokens, nil, func(h *history.History) {
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: h.Run.Ended.UnixMicro(), Table: "jobs", Before: &history.Row{Job: "each", Cursor: 5}, After: &history.Row{Job: "each", Cursor: 4}})
		}},

		{"a stale write accepted", StaleOwners, nil, func(h *history.History) { h.Stale[0].Refused = false }},
		{"a stale write that changed something", StaleOwners, nil, func(h *history.History) { h.Stale[0].Changed = true }},

		{"an acknowledged task that is gone", Conserved, nil, func(h *history.History) {
			h.Asks[0].TaskIDs = append(h.Asks[0].TaskIDs, "gone")
		}},
		{"a task without a request", Conserved, nil, func(h *history.History) {
			h.Final.Done = append(h.Final.Done, history.Row{ID: "unknown", Pool: "mail", State: "succeeded"})
		}},
		{"a key that is given to another task", Conserved, nil, func(h *history.History) {
			keys := changes(h, "idempotency")
			h.Audit[keys[0]].After.TaskID = h.Audit[keys[1]].After.TaskID
			h.Audit = slices.Delete(h.Audit, keys[1], keys[1]+1)
		}},
		{"a key that is given away", Conserved, nil, func(h *history.History) {
			c := h.Audit[changes(h, "idempotency")[0]]
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: h.Run.Ended.UnixMicro(), Table: c.Table, Before: c.After})
		}},
		{"a key that is not kept", Conserved, nil, func(h *history.History) {
			i := changes(h, "idempotency")[0]
			h.Audit = slices.Delete(h.Audit, i, i+1)
		}},
		{"a key with two tasks", Conserved, nil, func(h *history.History) {
			r := h.Final.Done[slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.IdemKey != "" })]
			r.ID += "-2"
			h.Final.Done = append(h.Final.Done, r)
		}},
		{"a key with two answers", Conserved, nil, func(h *history.History) {
			a := h.Asks[slices.IndexFunc(h.Asks, func(a history.Ask) bool { return a.Answer == "ok" })]
			a.TaskIDs = []string{lastOf(h, a.Target)}
			h.Asks = append(h.Asks, a)
		}},
		{"a task that never ends", Conserved, nil, func(h *history.History) {
			r := h.Final.Done[slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.IdemKey != "" })]
			h.Final.Done = slices.DeleteFunc(h.Final.Done, func(d history.Row) bool { return d.ID == r.ID })
			h.Final.Tasks = append(h.Final.Tasks, r)
		}},

		{"a task that ends twice", OneEnd, nil, func(h *history.History) {
			c := h.Audit[firstChange(h, "done", "")]
			c.Seq = 1 << 40
			h.Audit = append(h.Audit, c)
		}},
		{"an end that changes", OneEnd, nil, func(h *history.History) {
			c := h.Audit[firstChange(h, "done", "")]
			c.Before, c.Seq = c.After, 1<<40
			failed := *c.After
			failed.State = "failed"
			c.After = &failed
			h.Audit = append(h.Audit, c)
		}},
		{"an output that changes", OneEnd, nil, func(h *history.History) {
			c := h.Audit[changes(h, "outputs")[0]]
			c.Before, c.Seq = c.After, 1<<40
			h.Audit = append(h.Audit, c)
		}},
		{"an output without an attempt", OneEnd, nil, func(h *history.History) {
			h.Audit[changes(h, "outputs")[0]].After.Attempt++
		}},
		{"an output of no handler", OneEnd, nil, func(h *history.History) {
			h.Audit[changes(h, "outputs")[0]].After.Output = "and more\n"
		}},
		{"no output at all", NotVacuous, nil, func(h *history.History) {
			h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool { return c.Table == "outputs" })
		}},
		{"an output of an earlier attempt", OneEnd, nil, func(h *history.History) {
			h.Audit[changes(h, "outputs")[0]].After.Output = "first\ntoken 999\n"
		}},
		{"a running task that is pushed aside", OneEnd, []Invariant{Recovers}, func(h *history.History) {
			c := h.Audit[firstChange(h, "tasks", "again")]
			stolen := *c.After
			stolen.Token, stolen.Session = stolen.Token+1000, "other"
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: h.Run.Ended.UnixMicro(), Table: "tasks", Before: c.After, After: &stolen})
		}},
		{"a running task whose time is moved back", OneEnd, nil, func(h *history.History) {
			i := slices.IndexFunc(h.Audit, func(c history.Change) bool { return c.Table == "tasks" && c.After != nil && c.After.State == running })
			c := h.Audit[i]
			later := *c.After
			later.Until += 1000
			h.Audit = slices.Insert(h.Audit, i+1,
				history.Change{Seq: c.Seq, At: c.At, Table: "tasks", Before: c.After, After: &later},
				history.Change{Seq: c.Seq, At: c.At, Table: "tasks", Before: &later, After: c.After})
		}},
		{"a task deleted without an end", OneEnd, nil, func(h *history.History) {
			h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool { return c.Table == "done" })
		}},
		{"a trigger whose end changes", OneEnd, nil, func(h *history.History) {
			r := h.Final.Triggers[firstTrigger(h, "each", "ran")]
			failed := r
			failed.Result = "failed"
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 40, At: r.FinishedAt, Table: "triggers", Before: &r, After: &failed})
		}},
		{"a success without an attempt", OneEnd, nil, func(h *history.History) {
			h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool { return e.What == history.End && e.Job == "slow" })
		}},
		{"a success before its handler ended", OneEnd, nil, func(h *history.History) {
			for i, e := range h.Effects {
				if e.What == history.End && e.Pool == "once" {
					h.Effects[i].At = e.At.Add(2 * time.Second)
					return
				}
			}
		}},

		{"a start before it is due", OnTime, []Invariant{OneStart}, func(h *history.History) {
			e := &h.Effects[firstEffect(h, history.Start, "slow")]
			e.At = e.ScheduledAt.Add(-1500 * time.Millisecond)
		}},
		{"a late trigger on a healthy day", OnTime, nil, func(h *history.History) {
			h.Final.Triggers[firstTrigger(h, "slow", "skipped")].DecidedAt += 1_200_000
		}},
		{"a late trigger beside a killed replica", OnTime, nil, func(h *history.History) {
			for i, r := range h.Final.Triggers {
				if dbTime(r.At).After(h.Windows[0].Began) && r.Outcome == "skipped" && r.Job == "slow" {
					h.Final.Triggers[i].DecidedAt += 1_200_000
					return
				}
			}
		}},
		{"slow starts on a healthy day", OnTime, nil, func(h *history.History) {
			for i, e := range h.Effects {
				if e.Job == "each" && e.What == history.Start {
					h.Effects[i].At = e.At.Add(700 * time.Millisecond)
				}
			}
			h.Run.Jobs[0].Concurrency = "allow"
		}},

		{"a killed replica's task decided late", Recovers, nil, reapedLate},
		{"a killed replica's task decided late on a busy machine, though others were ready", Recovers, nil, func(h *history.History) {
			h.Run.Slack = time.Millisecond
			reapedLate(h)
		}},
		{"a killed replica's task decided late beside one that is cut off", Recovers, nil, func(h *history.History) {
			also(h, h.Windows[0].Began, window, []string{other(h)}, history.StoreSlow)
			reapedLate(h)
		}},
		{"not ready again", Recovers, nil, func(h *history.History) {
			for i, p := range h.Probes {
				if p.Replica == "a" && p.At.After(h.Windows[0].Healed) && p.At.Before(h.Windows[0].Healed.Add(7*time.Second)) {
					h.Probes[i].Ready = false
				}
			}
		}},

		{"a loss without a fault", Degrades, nil, func(h *history.History) {
			h.Final.Attempts = append(h.Final.Attempts, history.Row{TaskID: "t1", State: "lost"})
			h.Audit = append(h.Audit, history.Change{
				Seq: 1 << 40, At: began.Add(5 * time.Second).UnixMicro(), Table: "attempts",
				After: &history.Row{TaskID: "t1", Replica: "a", State: "lost", Token: 1},
			})
		}},
		{"a session that expires without a fault", Degrades, nil, func(h *history.History) { dies(h, 3*time.Second) }},
		{"a session that expires while another cell has the machine", Degrades, nil, func(h *history.History) {
			strain(h)
			w := &h.Windows[len(h.Windows)-1]
			w.Began, w.Healed, w.Kinds = began, h.Run.Ended, harmful // as older runs have it
			dies(h, 3*time.Second)
		}},
		{"a session that expires by a fault that spares", Degrades, nil, func(h *history.History) {
			h.Run.Slack = time.Second
			h.Windows[0].Kinds, h.Windows[0].Began = append(h.Windows[0].Kinds, history.StoreDown), began
			h.Windows[0].Replicas, h.Windows[0].Spares = nil, true
			for i, p := range h.Probes {
				h.Probes[i].Live, h.Probes[i].Ready = true, p.At.After(h.Windows[0].Healed)
			}
			dies(h, 3*time.Second)
		}},
		{"a live session that is expired", Degrades, nil, func(h *history.History) {
			h.Run.Slack = time.Second
			dies(h, 2900*time.Millisecond)
		}},
		{"a live session that is expired in a fault", Degrades, nil, func(h *history.History) {
			strike(h, []string{other(h), h.Windows[0].Replicas[0]}, history.ReplicaFrozen)
			h.Windows[0].Began = began
			dies(h, 2900*time.Millisecond)
		}},
		{"a loss in a fault that spares", Degrades, nil, func(h *history.History) { h.Windows[0].Spares, h.Processes = true, nil }},
		{"ready without a store", Degrades, nil, func(h *history.History) {
			withoutStore(h)
			for i := range h.Probes {
				h.Probes[i].Live, h.Probes[i].Ready = true, true
			}
		}},
		{"ready without a store, beside another fault", Degrades, nil, func(h *history.History) {
			withoutStore(h)
			h.Windows[0].Pair = "flushall"
			for i := range h.Probes {
				h.Probes[i].Live, h.Probes[i].Ready = true, true
			}
		}},
		{"mute without a store", Degrades, nil, func(h *history.History) {
			withoutStore(h)
			for i, p := range h.Probes {
				h.Probes[i].Live, h.Probes[i].Ready = p.At.Before(h.Windows[0].Began) || p.At.After(h.Windows[0].Healed), p.At.Before(h.Windows[0].Began) || p.At.After(h.Windows[0].Healed)
			}
		}},
		{"a start without a store", Degrades, nil, func(h *history.History) {
			i := firstEffect(h, history.Start, "once pool")
			h.Windows[0].Kinds, h.Windows[0].Replicas = append(h.Windows[0].Kinds, history.StoreDown), nil
			e := &h.Effects[i]
			h.Windows[0].Began = e.At.Add(time.Millisecond)
			e.At = e.At.Add(3500 * time.Millisecond)
			h.Processes = nil
			for i, p := range h.Probes {
				if p.At.After(h.Windows[0].Began) && p.At.Before(h.Windows[0].Healed) {
					h.Probes[i].Live, h.Probes[i].Ready = true, false
				}
			}
		}},

		{"a drain with an exit code", Drains, nil, func(h *history.History) { drained(h).Exit = 1 }},
		{"a drain without end", Drains, nil, func(h *history.History) {
			p := drained(h)
			p.Told = p.Ended.Add(-25 * time.Second)
			none(h, p.Replica)
		}},
		{"a drain that goes on claiming", Drains, nil, func(h *history.History) {
			p := drained(h)
			p.Told = p.Ended.Add(-8 * time.Second)
		}},

		{"something left over", Clean, nil, func(h *history.History) { h.Leftovers[0].After = 13 }},
		{"a replica that ends by itself", Clean, nil, func(h *history.History) {
			p := drained(h)
			p.How, p.Exit = "ended", 2
		}},

		{"too few triggers", NotVacuous, nil, func(h *history.History) { h.Run.Minimum.Triggers = 1000 }},
		{"too few tasks", NotVacuous, nil, func(h *history.History) { h.Run.Minimum.Tasks = 1000 }},
		{"too few faults", NotVacuous, nil, func(h *history.History) { h.Run.Minimum.Faults = 2 }},
		{"a fault that did not strike", NotVacuous, nil, func(h *history.History) {
			h.Windows = append(h.Windows, history.Window{Nemesis: "blow", Began: began, Healed: began})
		}},
		{"an operation that never worked", NotVacuous, nil, func(h *history.History) {
			h.Asks = append(h.Asks, history.Ask{What: "backfill", Answer: "refused"})
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
			if !strings.Contains(r.String(), string(c.want)) {
				t.Errorf("the report does not say so:\n%s", r)
			}
		})
	}
}

// withKind gives all tasks of pools one kind, and the pools limits for it.
func withKind(h *history.History, limits history.Limits) {
	for i := range h.Run.Pools {
		h.Run.Pools[i].PerKind = map[string]history.Limits{"k": limits}
	}
	for _, c := range h.Audit {
		for _, r := range []*history.Row{c.Before, c.After} {
			if r != nil && c.Table == "tasks" && r.Job == "" {
				r.Kind = "k"
			}
		}
	}
}

// withKey gives all tasks of pools one key, and the pools limits by it.
func withKey(h *history.History, limit func(p *history.Pool)) {
	for i := range h.Run.Pools {
		limit(&h.Run.Pools[i])
	}
	for _, c := range h.Audit {
		for _, r := range []*history.Row{c.Before, c.After} {
			if r != nil && c.Table == "tasks" && r.Job == "" {
				r.Key = "k"
			}
		}
	}
}
