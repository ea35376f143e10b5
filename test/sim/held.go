package sim

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// held is what users have said of a job, as its row has it.
type held struct {
	ledger.Suspension
	skips    int // of the next due times
	skipping int // of these, what the transaction under way has rows for
}

func (w *world) heldOf(job string) *held {
	if w.held[job] == nil {
		w.held[job] = &held{}
	}
	return w.held[job]
}

// judgeHeld judges a new row of the ledger: the next due times are skipped if a user has said so, in order; then those within a suspension, and
// none outside. What counts is when a due time starts.
func (w *world) judgeHeld(r memstore.Trigger) {
	if r.Seq != 0 || r.Replica == "" || r.ReasonCode == reason.Calendar { // without a replica an edit has overtaken it
		return
	}
	h := w.heldOf(r.Job)
	start := func(at int64) time.Time { return w.startOf(r.Job, time.UnixMicro(at).UTC()) }
	within := h.Suspended != nil && *h.Suspended && (h.Until.IsZero() || start(r.At).Before(h.Until))
	last := max(r.At, r.Until)
	specs := w.specs[r.Job] // which version is decided by is not known here
	vague := len(specs) > 1 && !h.Until.IsZero() && slices.ContainsFunc(specs, func(j job) bool { return j.Jitter > 0 || j.Closed != nil })
	switch left := h.skips - h.skipping; {
	case r.ReasonCode == reason.SkipNext:
		w.counted["due times skipped by hand"] += r.Count
		if h.skipping += r.Count; r.Count > left {
			w.violate(r.Job, "job %s: %d due times from %s are skipped, a user has said %d", r.Job, r.Count, clock(r.At), left)
		}
	case left > 0:
		w.violate(r.Job, "job %s: a user has skipped the next %d due times, and that of %s is %q", r.Job, left, clock(r.At), r.Outcome+" "+string(r.ReasonCode))
	case vague:
	case within && r.ReasonCode != reason.Suspended:
		w.violate(r.Job, "job %s is suspended, and its due time %s is %q", r.Job, clock(r.At), r.Outcome+" "+string(r.ReasonCode))
	case r.ReasonCode != reason.Suspended:
	case !within, !h.Until.IsZero() && !start(last).Before(h.Until):
		w.violate(r.Job, "job %s: due times from %s to %s are skipped as suspended, which it was not", r.Job, clock(r.At), clock(last))
	case !h.Until.IsZero():
		w.counted["suspended until"]++
	}
}

// watchHeld notes what users say of a job. What was skipped is counted off in the transaction that has the rows.
func (w *world) watchHeld(before, r memstore.Job) {
	h := w.heldOf(r.Name)
	if want := before.SkipNext - h.skipping; h.skipping > 0 && r.SkipNext != want {
		w.violate(r.Name, "job %s: after %d due times were skipped %d are left, not %d", r.Name, h.skipping, r.SkipNext, want)
	}
	h.Suspension, h.skips, h.skipping = r.Suspension(), r.SkipNext, 0
}
