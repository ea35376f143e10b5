package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// notVacuous is I13: the run has seen as many triggers, acknowledged tasks and faults as it had to;
// each fault of it was seen to strike and was healed, and killed replicas had work; each kind of
// operation worked at least once, and again and again in a long run; stale writes were replayed and
// got answers, and locks were held by others, all the time; and the ledger of handlers, the audit and
// the probes have something to say. Files that have lost something, and an audit that is damaged, see
// newTrial and readClaims, are judged as far as they go.
//
// No excuses.
func (t *trial) notVacuous() {
	vacuous := func(subject, format string, args ...any) {
		t.violate(NotVacuous, subject, time.Time{}, "vacuous: "+format, args...)
	}
	faults := 0
	for _, w := range t.h.Windows {
		if w.Elsewhere {
			continue
		}
		if w.Applied {
			faults++
		} else {
			t.violate(NotVacuous, windowName(w), w.Began, "vacuous: not applied: %s", w.Evidence+w.Err)
		}
		if w.Applied && w.Err != "" {
			t.violate(NotVacuous, windowName(w), w.Began, "vacuous: %s", w.Err)
		}
		if w.Applied && has(w, history.ReplicaDown) && t.idle(w) {
			t.violate(NotVacuous, windowName(w), w.Began, "vacuous: the killed replica ran no command")
		}
	}
	least := t.run.Minimum
	if least.Triggers+least.Tasks == 0 {
		return // a run that need not say anything
	}
	all := []figure{
		{"triggers", len(t.h.Final.Triggers), least.Triggers},
		{"tasks", t.report.Tasks, least.Tasks},
		{"faults", faults, least.Faults},
		{"starts of attempts", t.report.Starts, 1},
		{"changes in the audit", len(t.h.Audit), 1},
		{"probes", len(t.h.Probes), 1},
	}
	if t.run.Slack == 0 && t.run.Quiesced.Sub(t.run.Began) > long {
		all = append(all, figure{"triggers while nothing was broken", t.report.Healthy.N, enough})
	}
	for _, m := range slices.Concat(all, t.kept(), t.ofWorkers(), t.ofPools(), t.ofJobs(), t.replayed(), t.worked(), t.locked()) {
		if m.have < m.min {
			vacuous("run", "%d %s, and %d are the least", m.have, m.what, m.min)
		}
	}
}

// long is a run of so many windows that its figures are compared with others.
const long = 5 * time.Minute

// figure is a number that a run must reach.
type figure struct {
	what      string
	have, min int
}

// each is how often something must have been seen that comes once in d, in the time of the clients.
func (t *trial) each(d time.Duration) int { return max(1, int(t.run.Quiesced.Sub(t.run.Began)/d)) }

// replayed counts the stale writes that got an answer, of each kind that the cell gives reason for, and
// what holders of locks have said. All of it is far below what a run on a busy machine shows.
func (t *trial) replayed() []figure {
	stale := map[string]int{}
	for _, s := range t.h.Stale {
		if s.Error == "" {
			stale[s.What]++
		}
	}
	var all []figure
	for _, what := range []string{"finish", "handback", "extend", "report"} {
		all = append(all, figure{"answers to a stale " + what, stale[what], t.each(5 * time.Second)})
	}
	died := slices.ContainsFunc(t.h.Audit, func(c history.Change) bool {
		return c.Table == "sessions" && c.After != nil && c.After.Dead != 0 && dbTime(c.At).Before(t.quiesced().Add(-10*time.Second))
	})
	if died {
		all = append(all, figure{"answers to a stale beat", stale["beat"], 1})
	}
	all = append(all, figure{"answers to a stale release", stale["release"], t.each(30 * time.Second)},
		figure{"looks at locks that were held", len(t.h.Holds), t.each(time.Second)})
	if t.inOrder() {
		all = append(all, figure{"waits that were queued and granted", len(t.queued()), t.each(time.Second)})
	}
	return all
}

// often is how long a run is in which chance leaves out nothing that clients do.
const often = 2 * time.Minute

// unhurried reports whether what is rare had the time to happen: on a machine that is known to be busy (Run.Slack), a short run may see
// none of it.
func (t *trial) unhurried() bool {
	return t.run.Slack == 0 || t.run.Quiesced.Sub(t.run.Began) >= long
}

// worked counts what clients asked for and got: each kind that they tried, and all there are if they
// had the time.
func (t *trial) worked() (all []figure) {
	worked := map[string]int{}
	long := t.run.Quiesced.Sub(t.run.Began) >= often
	if long {
		for _, what := range []string{"enqueue", "run", "cancel", "retry", "pause", "resume", "suspend"} {
			worked[what] = 0
		}
		if t.run.Format >= 4 {
			worked["limit"], worked["cancel many"], worked["retry many"] = 0, 0, 0
		}
	}
	for _, a := range t.h.Asks {
		if a.What == "skip" && !t.unhurried() {
			continue // what has been skipped is judged by the rows of jobs, whether the client had an answer or not
		}
		n := 0
		if a.Answer == "ok" {
			n = 1
		}
		worked[a.What] += n
	}
	for _, what := range slices.Sorted(maps.Keys(worked)) {
		all = append(all, figure{"times that " + what + " worked", worked[what], t.each(often)})
	}
	return all
}

// idle reports whether replicas were killed in a window, and none of them had a command that ran.
func (t *trial) idle(w history.Window) bool {
	killed := false
	for _, p := range t.h.Processes {
		if p.How != "killed" && p.How != "group killed" || p.Ended.Before(w.Began) || p.Ended.After(w.Healed) {
			continue
		}
		killed = true
		for _, e := range t.begun {
			c := t.claims[claimKey{e.TaskID, e.Token}]
			if e.What == history.Start && e.Replica == p.Replica && e.At.Before(p.Ended) && c != nil &&
				(!t.sameClock(c.seq) || c.to.IsZero() || c.to.After(p.Ended.Add(-200*time.Millisecond))) {
				return false
			}
		}
	}
	return killed
}
