package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Runs of "locks exec" that break a promise are found, and what excuses them passes.
func TestExecs(t *testing.T) {
	const killed = 3 // the first one of the model that is
	last := func(h *history.History, exec int, later time.Duration) {
		i := lastSaid(h, exec)
		h.Locked[i].At = h.Locked[i].At.Add(later)
	}
	strikeAll := func(kinds ...history.Kind) func(h *history.History) {
		return func(h *history.History) {
			h.Windows = append(h.Windows, history.Window{Nemesis: "strike", Kinds: kinds, Began: began, Healed: h.Run.Ended, Applied: true})
		}
	}
	busy := func(h *history.History) {
		h.Execs[4].Exit, h.Execs[4].Began = execBusy, h.Execs[4].Ended.Add(-5200*time.Millisecond)
		h.Locked = slices.DeleteFunc(h.Locked, func(l history.Locked) bool { return l.Exec == h.Execs[4].Name || l.Exec == h.Execs[3].Name })
	}
	for _, d := range []falseReason{
		{"a command beside that of another one", NoOverlap, "the command of locks exec c.1", func(h *history.History) { last(h, 1, 4900*time.Millisecond); h.Execs[1].Ended = h.Run.Ended }, nil, nil},
		{"a command beside that of a job", NoOverlap, "lock ledger", func(h *history.History) { h.Run.Jobs[1].Lock = "ledger" }, nil, nil},
		{"a command beside that of another one, whose connection the server closed", NoOverlap, "lock ledger", func(h *history.History) {
			h.Run.Cell = "mariadb+row"
			last(h, 1, 4900*time.Millisecond)
			h.Execs[1].Ended = h.Run.Ended
		}, nil, strikeAll(history.LockDown)},
		{"a token again", Excludes, "with the lock's token 10 after 10", func(h *history.History) { said(h, 1, func(l *history.Locked) { l.Token = 10 }) }, nil, nil},
		{"no token", Excludes, "and the token 0", func(h *history.History) { said(h, 1, func(l *history.Locked) { l.Token = 0 }) }, nil, nil},
		{"another key", Excludes, `was told the key "user/other"`, func(h *history.History) { said(h, 1, func(l *history.Locked) { l.Key = "user/other" }) }, nil, nil},
		{"a command that outlives it", NoOverlap, "after it had ended with 0", func(h *history.History) { last(h, 1, 200*time.Millisecond) }, nil, nil},
		{"a command that outlives one that was killed", NoOverlap, "as it was killed", func(h *history.History) { last(h, killed, 3*time.Second) }, nil, func(h *history.History) { h.Run.Slack = time.Second }},
		{"a command that ends and is not known", NotVacuous, "nothing says how it ended", func(h *history.History) { h.Execs = slices.Delete(h.Execs, 1, 2) }, nil, nil},
		{"0 without an end", Clean, "and its command had not ended", func(h *history.History) { h.Locked[lastSaid(h, 1)].What = history.Beat }, nil, nil},
		{"nothing is granted", Clean, "which says that the lock service grants nothing", func(h *history.History) { h.Execs[1].Exit = execDown }, nil, strikeAll(history.LockDown)},
		{"nothing is granted beside a store that is down", Clean, "grants nothing", func(h *history.History) { h.Execs[1].Exit = execDown; strikeAll(history.StoreSlow)(h) }, nil, func(h *history.History) { h.Run.Cell = "mariadb+mariadb" }},
		{"nothing is granted beside a slow connection of another replica", Clean, "grants nothing", func(h *history.History) {
			h.Execs[1].Exit, h.Execs[1].Beside = execDown, "a"
			strikeAll(history.LockSlow)(h)
			h.Windows[len(h.Windows)-1].Replicas = []string{"b"}
		}, nil, func(h *history.History) { h.Run.Cell = "mariadb+lease" }},
		{"nothing is granted to one that stood still", Clean, "grants nothing", func(h *history.History) { h.Execs[1].Exit = execDown }, nil, func(h *history.History) { h.Execs[1].How = history.ExecFrozen }},
		{"nothing is granted on a machine with time for all", Clean, "grants nothing", func(h *history.History) {
			h.Execs[1].Exit = execDown
			h.Probes = append(h.Probes, history.Probe{At: h.Execs[1].Ended.Add(-time.Second), Replica: h.Execs[1].Beside, Live: true})
		}, nil, func(h *history.History) { h.Run.Slack = time.Second }},
		{"nothing is granted on a busy machine, beside a replica that is ready", Clean, "grants nothing", func(h *history.History) {
			h.Execs[1].Exit, h.Run.Slack = execDown, time.Second
		}, nil, nil},
		{"an unknown code", Clean, "which nothing explains", func(h *history.History) { h.Execs[1].Exit = 66; strikeAll(history.LockDown)(h) }, nil, nil},
		{"a signal", Clean, "ended with -1", func(h *history.History) { h.Execs[1].Exit = -1 }, nil, func(h *history.History) { h.Execs[1].How = history.ExecKilled }},
		{"busy while nobody worked", InTurn, "while locks exec c.4 waited", busy, nil, strikeAll(history.LockDown)},
		{"none that succeeded", NotVacuous, "0 runs of locks exec that succeeded", func(h *history.History) {
			for i := range h.Execs {
				h.Execs[i].Exit = execBusy
			}
		}, nil, func(h *history.History) { h.Run.Format = 2 }},
	} {
		t.Run(d.name, d.test)
	}
	t.Run("a larger token of a job that began before", func(t *testing.T) {
		h := clean(eventful)
		h.Run.Jobs[0].Lock = "ledger" // its commands overlap
		for i, e := range h.Effects {
			if e.Job == "each" && e.At.Before(began.Add(time.Second)) {
				h.Effects[i].LockToken = 25
			}
		}
		found(t, h, Excludes, "with the lock's token 20 after 25", true)
	})
	t.Run("none that was struck", func(t *testing.T) {
		h := lasting(1, 3*time.Minute)
		found(t, h, NotVacuous, "", false)
		for i := range h.Execs {
			h.Execs[i].Struck = time.Time{}
		}
		found(t, h, NotVacuous, "0 runs of locks exec that were killed or frozen", true)
	})
	if n := Judge(clean(eventful)).Execs; n["exit 0"] == 0 || n["killed"] == 0 {
		t.Errorf("the report counts %v", n)
	}
}

// said changes all that one's command said.
func said(h *history.History, exec int, change func(*history.Locked)) {
	for i := range h.Locked {
		if h.Locked[i].Exec == h.Execs[exec].Name {
			change(&h.Locked[i])
		}
	}
}

// lastSaid is the last thing that one's command said.
func lastSaid(h *history.History, exec int) (last int) {
	for i, l := range h.Locked {
		if l.Exec == h.Execs[exec].Name {
			last = i
		}
	}
	return last
}
