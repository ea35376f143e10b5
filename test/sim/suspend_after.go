package sim

import (
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawSuspendAfter has some jobs suspended when their runs fail in a row. Where there are two configurations it is not known which one the owner of a run has.
func (p *plan) drawSuspendAfter(d draw) {
	if p.Edited != nil || !d.chance(0.3) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Jobs)) {
		if d.chance(0.5) {
			j := p.Jobs[name]
			j.SuspendAfter = 1 + d.IntN(3)
			p.Jobs[name] = j
		}
	}
}

// suspendsAfter is how many runs of a job that fail in a row suspend it; 0: any number. With w.mu held.
func (w *world) suspendsAfter(name string) int {
	if specs := w.specs[name]; len(specs) > 0 {
		return specs[0].SuspendAfter
	}
	return 0
}

// countRun counts the end of a run, unless its job is suspended. What was lost and has succeeded in fact starts again from none. With w.mu held.
func (w *world) countRun(name string, state jobs.State, late bool) {
	switch {
	case name == "" || w.heldOf(name).At(w.shows()).Holds(false):
	case state == jobs.StateSucceeded:
		w.failures[name] = 0
	case !late && (state == jobs.StateFailed || state == jobs.StateLost):
		w.failures[name]++
	}
}

// watchFailures: a job is suspended by as many failures in a row as it allows, and counts them right. A call of a user starts again from none. With w.mu held.
func (w *world) watchFailures(op string, before, r memstore.Job) {
	after := w.suspendsAfter(r.Name)
	switch {
	case op == "suspend jobs":
		w.failures[r.Name] = 0
		if r.Failures != 0 {
			w.violate(r.Name, "job %s counts %d failures after a call of a user", r.Name, r.Failures)
		}
	case after > 0 && r.Failures != before.Failures && r.Failures != w.failures[r.Name]:
		w.violate(r.Name, "job %s counts %d runs that failed in a row, and there are %d", r.Name, r.Failures, w.failures[r.Name])
	case r.SuspendedBy != before.SuspendedBy && r.SuspendedBy == ledger.SuspendedBy:
		w.counted["suspended after failures"]++
		w.suspended[r.Name]++
		if r.Failures != after || r.Suspended == nil || !*r.Suspended || r.SuspendReason == "" {
			w.violate(r.Name, "job %s is suspended after %d failures, and allows %d: %s", r.Name, r.Failures, after, r.SuspendReason)
		}
	}
}

// judgeFailures: no run of a job is opened by its schedule once as many have failed in a row as it allows. With w.mu held.
func (w *world) judgeFailures(g memstore.Trigger) {
	if after := w.suspendsAfter(g.Job); after > 0 && g.Seq == 0 && g.Outcome == "" && w.failures[g.Job] >= after {
		w.violate(g.Job, "job %s: %d runs have failed in a row, and its due time %s is to run", g.Job, w.failures[g.Job], clock(g.At))
	}
}

// watchSuspended gets an event: it says why its job is suspended, by the run that did. With w.mu held.
func (w *world) watchSuspended(e memstore.Event) {
	w.toldOf[e.Job]++
	if after := w.suspendsAfter(e.Job); e.TaskID == "" || e.Reason == "" || w.failures[e.Job] != after {
		w.violate(e.Job, "job %s is told to be suspended by task %s, %q, after %d failures, and allows %d", e.Job, e.TaskID, e.Reason, w.failures[e.Job], after)
	}
}

// judgeSuspended: there is one event for each suspension. With w.mu held.
func (w *world) judgeSuspended() {
	for name := range w.specs {
		if n, told := w.suspended[name], w.toldOf[name]; n != told {
			w.violate(name, "job %s was suspended %d times after failures, and %d events tell of it", name, n, told)
		}
	}
}
