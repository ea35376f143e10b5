package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// falseReason is a false reason in the record: it is found because something else happened,
// and passes with what makes it true.
type falseReason struct {
	name string
	want Invariant
	text string // of the violation
	what func(h *history.History)
	// near does not make it true, and because does; both may be nil.
	near, because func(h *history.History)
}

func (d falseReason) test(t *testing.T) {
	for _, step := range []struct {
		found bool
		does  func(h *history.History)
	}{{true, d.what}, {true, d.near}, {false, d.because}} {
		if step.does == nil {
			continue
		}
		h := clean(eventful)
		d.what(h)
		if !step.found || d.near != nil {
			step.does(h)
		}
		r := Judge(h)
		if found := r.has(d.want, d.text); found != step.found {
			t.Errorf("%s %q: found %t, and it should be %t:\n%s", d.want, d.text, found, step.found, r)
		}
		if broken := r.Broken(); step.found && !slices.Equal(broken, []Invariant{d.want}) {
			t.Errorf("broken are %v:\n%s", broken, r)
		}
	}
}

// has reports whether a promise was broken in such words.
func (r Report) has(i Invariant, text string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == i && strings.Contains(v.Subject+" "+v.Text, text) })
}

// row is the first row that a schedule made of a job with an outcome.
func row(h *history.History, job, outcome string) *history.Row {
	return &h.Final.Triggers[firstTrigger(h, job, outcome)]
}

// ask adds a call of a client.
func ask(h *history.History, what, target, answer string, at time.Time) {
	h.Asks = append(h.Asks, history.Ask{What: what, Target: target, Answer: answer, Called: at, Returned: at.Add(time.Second)})
}

// openedFirst says that a run has the slot, and not where it is.
func openedFirst(ran history.Row) string {
	return "the run of " + dbTime(ran.At).UTC().Format(time.RFC3339Nano) + " (task " + ran.TaskID + ") was opened first, at 2026-03-01T12:00:00Z"
}

// Reasons must be true of the row's own job or task, at its own time.
func TestReasons(t *testing.T) {
	skip := func(reason string) func(h *history.History) {
		return func(h *history.History) { row(h, "slow", "skipped").Reason = reason }
	}
	cancel := func(h *history.History) {
		r := row(h, "slow", "ran")
		r.Result, r.Reason = "cancelled", "cancelled by a user"
	}
	for _, d := range []falseReason{
		{"suspended at another time", Accounted, "it was not, then", skip("suspended"), func(h *history.History) {
			at := dbTime(row(h, "slow", "skipped").DecidedAt)
			ask(h, "suspend", "each", "ok", at) // another job
			ask(h, "suspend", "slow", "refused", at)
			ask(h, "suspend", "slow", "ok", at.Add(-8*time.Second))
			ask(h, "resume", "slow", "ok", at.Add(-6*time.Second))
		}, func(h *history.History) {
			at := dbTime(row(h, "slow", "skipped").DecidedAt)
			ask(h, "suspend", "slow", "ok", at.Add(-8*time.Second))
			ask(h, "resume", "slow", "unknown", at.Add(-6*time.Second))
		}},
		{"suspended when it had waited, and not before", Accounted, "it was not, then", func(h *history.History) {
			r := row(h, "slow", "skipped")
			r.Reason, r.FinishedAt = "suspended while it waited for a slot", r.DecidedAt+(10*time.Second).Microseconds()
		}, func(h *history.History) {
			at := dbTime(row(h, "slow", "skipped").DecidedAt)
			ask(h, "suspend", "slow", "ok", at.Add(-time.Second))
			ask(h, "resume", "slow", "ok", at.Add(time.Second))
		}, func(h *history.History) {
			at := dbTime(row(h, "slow", "skipped").DecidedAt)
			ask(h, "suspend", "slow", "ok", at.Add(9*time.Second))
		}},
		{"a lost attempt whose time was over", Accounted, "no attempt was lost", skip("a lost attempt may run until then"), func(h *history.History) {
			loses(h, "slow", -time.Second)
		}, func(h *history.History) { loses(h, "slow", time.Second) }},
		{"lost attempts whose time was over", Accounted, "no attempt was lost", skip("2 lost attempts may run until then: one of them, 1 before"), func(h *history.History) {
			loses(h, "slow", -time.Second)
		}, func(h *history.History) { loses(h, "slow", time.Second) }},
		{"a lost attempt of another job", Accounted, "no attempt was lost", skip("a lost attempt may run until then"), func(h *history.History) {
			loses(h, "each", time.Hour)
		}, nil},
		{"a slot of a task that came later", Accounted, "later", func(h *history.History) {
			var last history.Row
			for _, r := range h.Final.Triggers {
				if r.Job == "slow" && r.Outcome == "ran" {
					last = r
				}
			}
			row(h, "slow", "skipped").Reason = openedFirst(last)
		}, nil, nil},
		{"a slot of another due time's task", Accounted, "another due time", func(h *history.History) {
			r := row(h, "slow", "skipped")
			said, _ := readHolder(r.Reason)
			r.Reason = strings.Replace(r.Reason, said.run, "2026-03-01T11:59:59Z", 1)
		}, nil, nil},
		{"a slot of a task that ran elsewhere", Accounted, "no attempt of it began there", func(h *history.History) {
			r := row(h, "slow", "skipped")
			said, _ := readHolder(r.Reason)
			r.Reason = strings.Replace(r.Reason, "on replica "+said.replica, "on replica unknown", 1)
		}, nil, nil},
		{"a slot of a task that ran at another time", Accounted, "no attempt of it began there", func(h *history.History) {
			r := row(h, "slow", "skipped")
			said, _ := readHolder(r.Reason)
			r.Reason = strings.Replace(r.Reason, "since "+said.since, "since 2026-03-01T11:59:59Z", 1)
		}, nil, nil},
		{"a slot in an unknown format", Accounted, "that is none", func(h *history.History) {
			row(h, "slow", "skipped").Reason += ", perhaps"
		}, nil, nil},
		{"cancelled without a request", Accounted, "no client requested it", cancel, func(h *history.History) {
			at := dbTime(row(h, "slow", "ran").DecidedAt)
			ask(h, "cancel", row(h, "each", "ran").TaskID, "ok", at) // another task
			ask(h, "cancel", row(h, "slow", "ran").TaskID, "refused", at)
		}, func(h *history.History) {
			ask(h, "cancel", row(h, "slow", "ran").TaskID, "unknown", dbTime(row(h, "slow", "ran").DecidedAt))
		}},
		{"cancelled before the request", Accounted, "no client had requested it", func(h *history.History) {
			cancel(h)
			ask(h, "cancel", row(h, "slow", "ran").TaskID, "ok", dbTime(row(h, "slow", "ran").FinishedAt).Add(time.Second))
		}, nil, nil},
	} {
		t.Run(d.name, d.test)
	}
}

// loses lets the first attempt of a job be lost before the first skipped row of slow, with so much of
// its time left then, and lets no other promise mind.
func loses(h *history.History, job string, left time.Duration) {
	strike(h, nil, history.ReplicaFrozen)
	h.Windows[0].Began = began.Add(-time.Second)
	at := dbTime(row(h, "slow", "skipped").DecidedAt)
	first := claims(h, job)[0]
	for i, c := range h.Audit {
		if c.Table == "tasks" && c.After != nil && c.After.ID == first.ID {
			c.After.Until = at.Add(left).UnixMicro()
		}
		if c.Table == "triggers" && c.After.At == row(h, "slow", "skipped").At && c.After.Job == "slow" {
			h.Audit = slices.Insert(h.Audit, i, history.Change{
				Seq: c.Seq, At: at.UnixMicro(), Table: "attempts", After: &history.Row{TaskID: first.ID, Replica: first.Replica, State: "lost", Token: first.Token},
			})
			h.Audit[i+1].Seq++ // which others may have as well
			return
		}
	}
}

// What is late runs as the policy says, or is missed as it allows.
func TestCatchUp(t *testing.T) {
	const late = 11*time.Second + 50*time.Millisecond
	delay := func(h *history.History, job, outcome string) *history.Row {
		away(h)
		r := row(h, job, outcome)
		r.DecidedAt += late.Microseconds()
		return r
	}
	for _, d := range []falseReason{
		{"missed with latest", Accounted, "nothing stands for it", func(h *history.History) {
			r := delay(h, "each", "ran")
			r.Outcome, r.Reason = "missed", "a later due time stands for it"
		}, nil, func(h *history.History) {
			i, r := firstTrigger(h, "each", "missed"), row(h, "each", "missed")
			for j := range h.Final.Triggers[i+1:] {
				if next := &h.Final.Triggers[i+1+j]; next.Job == "each" {
					next.DecidedAt = r.DecidedAt
					return
				}
			}
		}},
		{"made up for beside a later one", Accounted, "a later one stands for it", func(h *history.History) {
			r := delay(h, "each", "ran")
			for j := range h.Final.Triggers {
				if next := &h.Final.Triggers[j]; next.Job == "each" && next.At > r.At {
					next.DecidedAt = r.DecidedAt
					return
				}
			}
		}, nil, nil},
		{"missed with all", Accounted, "were to be made up for", func(h *history.History) {
			h.Run.Jobs[0].CatchUp = "all"
			r := delay(h, "each", "ran")
			r.Outcome, r.Reason = "missed", "beyond the limit"
		}, func(h *history.History) { h.Run.Jobs[0].Limit = 2 }, func(h *history.History) { h.Run.Jobs[0].Limit = 1 }},
		{"missed within the window", Accounted, "nothing stands for it", func(h *history.History) {
			r := delay(h, "each", "ran")
			r.Outcome, r.Reason = "missed", "older than the window"
		}, func(h *history.History) { h.Run.Jobs[0].Window = late }, func(h *history.History) { h.Run.Jobs[0].Window = late - time.Millisecond }},
		{
			"run with none", Accounted, "with catch-up none", func(h *history.History) { delay(h, "slow", "ran") }, nil,
			func(h *history.History) { h.Run.Jobs[1].Grace = 12 * time.Second },
		},
	} {
		t.Run(d.name, d.test)
	}
}

// away excuses all lateness: the store is away for all, from the beginning.
func away(h *history.History) {
	strike(h, nil, history.StoreDown)
	h.Windows[0].Began = began.Add(-time.Second)
	h.Windows[0].Pair = "other"
	h.Probes = slices.DeleteFunc(h.Probes, func(p history.Probe) bool { return p.At.Before(h.Windows[0].Healed) })
}

// A call does something once, and nothing is done without one.
func TestByHand(t *testing.T) {
	again := func(h *history.History) {
		r := h.Final.Triggers[slices.IndexFunc(h.Final.Triggers, func(r history.Row) bool { return r.Seq > 0 })]
		r.Seq, r.TaskID = 2, "copy"
		h.Final.Triggers = append(h.Final.Triggers, r)
	}
	retried := func(h *history.History) history.Row {
		return h.Final.Done[slices.IndexFunc(h.Final.Done, func(r history.Row) bool { return r.RetryOf != "" })]
	}
	for _, d := range []falseReason{
		{"a run by hand that was done twice", Accounted, "no client asked for it", again, func(h *history.History) {
			ask(h, "run", "again", "unknown", began.Add(10*time.Second)) // long ago
			ask(h, "run", "each", "unknown", began.Add(40*time.Second))
			ask(h, "run", "again", "refused", began.Add(40*time.Second))
		}, func(h *history.History) { ask(h, "run", "again", "unknown", began.Add(40*time.Second)) }},
		{"a run by hand of a call that has waited", Accounted, "no client asked for it", again, func(h *history.History) {
			ask(h, "run", "again", "unknown", began.Add(20*time.Second))
			h.Windows = append(h.Windows, history.Window{Nemesis: "no-descriptors", Applied: true, Replicas: []string{"r2"}, Began: began.Add(19 * time.Second), Healed: began.Add(39 * time.Second)})
			h.Asks[len(h.Asks)-1].Replica = "r1"
			ask(h, "run", "again", "unknown", began.Add(20*time.Second)) // it was answered
			h.Asks[len(h.Asks)-1].Replica, h.Asks[len(h.Asks)-1].Status = "r2", 503
			h.Windows = append(h.Windows, history.Window{Nemesis: "no-descriptors", Elsewhere: true, Replicas: []string{"r1"}, Began: began.Add(19 * time.Second), Healed: began.Add(39 * time.Second)})
			h.Windows = append(h.Windows, history.Window{Nemesis: "mariadb-frozen", Applied: true, Began: began.Add(19 * time.Second), Healed: began.Add(39 * time.Second)})
		}, func(h *history.History) {
			ask(h, "run", "again", "unknown", began.Add(20*time.Second))
			h.Windows = append(h.Windows, history.Window{Nemesis: "no-descriptors", Applied: true, Replicas: []string{"r1"}, Began: began.Add(19 * time.Second), Healed: began.Add(39 * time.Second)})
			h.Asks[len(h.Asks)-1].Replica = "r1"
		}},
		{"a run by hand with two rows", Accounted, "a second row", func(h *history.History) {
			again(h)
			h.Final.Triggers[len(h.Final.Triggers)-1].TaskID = h.Asks[slices.IndexFunc(h.Asks, func(a history.Ask) bool { return a.What == "run" })].TaskIDs[0]
		}, nil, nil},
		{"a run by hand without a row", Accounted, "not in the ledger", func(h *history.History) {
			h.Final.Triggers = slices.DeleteFunc(h.Final.Triggers, func(r history.Row) bool { return r.Seq > 0 })
		}, nil, nil},
		{"a run by hand skipped without a request", Accounted, "no client asked for it", func(h *history.History) {
			r := *row(h, "slow", "skipped")
			r.Seq = 1
			h.Final.Triggers = append(h.Final.Triggers, r)
		}, nil, func(h *history.History) { ask(h, "run", "slow", "refused", began.Add(time.Second)) }},
		{"a retry that was done twice", Conserved, "no client asked for it", func(h *history.History) {
			r := retried(h)
			r.ID = "copy"
			h.Final.Done = append(h.Final.Done, r)
		}, func(h *history.History) {
			ask(h, "retry", retried(h).RetryOf, "ok", began.Add(40*time.Second))
			ask(h, "retry", retried(h).RetryOf, "unknown", began.Add(10*time.Second))
			ask(h, "retry", "other", "unknown", began.Add(40*time.Second))
		}, func(h *history.History) { ask(h, "retry", retried(h).ID, "unknown", began.Add(40*time.Second)) }},
		{
			"a task without a key and a request", Conserved, "no client asked for it", func(h *history.History) {
				h.Final.Done = append(h.Final.Done, history.Row{ID: "unknown", Pool: "mail", State: "succeeded", CreatedAt: began.Add(time.Second).UnixMicro()})
			}, func(h *history.History) { ask(h, "enqueue", "mail", "unknown", began.Add(20*time.Second)) },
			func(h *history.History) { ask(h, "enqueue", "mail", "unknown", began.Add(time.Second)) },
		},
	} {
		t.Run(d.name, d.test)
	}
}

// A row that was written while the database's clock was set back settles none of the calls of before.
func TestByHandAfterAStep(t *testing.T) {
	judge := newTrial(clean(eventful))
	h := judge.h
	before := history.Row{Job: "slow", At: 1, Seq: 1, Count: 1, Outcome: "skipped", DecidedAt: began.Add(10 * time.Second).UnixMicro()}
	after := history.Row{Job: "slow", At: 2, Seq: 1, Count: 1, Outcome: "skipped", DecidedAt: began.Add(-time.Hour).UnixMicro()}
	h.Final.Triggers = []history.Row{after, before}
	h.Audit = []history.Change{{Seq: 1, Table: "triggers", After: &before}, {Seq: 9, Table: "triggers", After: &after}}
	judge.stepped = 5
	h.Asks = nil
	ask(h, "run", "slow", "refused", began.Add(10*time.Second))
	ask(h, "run", "slow", "refused", began.Add(40*time.Second))
	judge.byHand()
	if v := judge.report.Violations; len(v) > 0 {
		t.Errorf("%v", v)
	}
}

// Nor does a task that was born while the clock was set back.
func TestKeylessAfterAStep(t *testing.T) {
	judge := newTrial(clean(eventful))
	h := judge.h
	before := history.Row{ID: "before", Pool: "mail", CreatedAt: began.Add(10 * time.Second).UnixMicro()}
	after := history.Row{ID: "after", Pool: "mail", CreatedAt: began.Add(-time.Hour).UnixMicro()}
	h.Audit = []history.Change{{Seq: 1, Table: "tasks", After: &before}, {Seq: 9, Table: "tasks", After: &after}}
	judge.stepped = 5
	h.Asks = nil
	ask(h, "enqueue", "mail", "unknown", began.Add(10*time.Second))
	ask(h, "enqueue", "mail", "unknown", began.Add(40*time.Second))
	judge.keyless(map[string]history.Row{"before": before, "after": after}, nil)
	if v := judge.report.Violations; len(v) > 0 {
		t.Errorf("%v", v)
	}
}
