package sim

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// alike is what all versions of a job have for its due times and for those that are late; false if they differ. With w.mu held.
func (w *world) alike(name string) (job, bool) {
	specs := w.specs[name]
	for _, j := range specs[1:] {
		is := specs[0]
		if j.CatchUp != is.CatchUp || j.Jitter != is.Jitter || j.Spread != is.Spread || j.ICS != is.ICS || j.Kept != is.Kept || !slices.Equal(j.Times.specs(), is.Times.specs()) || j.Timezone != is.Timezone ||
			!j.StartsAt.Equal(is.StartsAt) || !j.EndsAt.Equal(is.EndsAt) || (j.Closed == nil) != (is.Closed == nil) || j.Closed != nil && j.Closed.next != is.Closed.next {
			return job{}, false
		}
	}
	return specs[0], true
}

// judgeCatchUp: late due times ran by the policy, those within the grace in any case. rows are those of the job's schedule.
func (w *world) judgeCatchUp(name string, rows []memstore.Trigger) {
	spec, known := w.alike(name)
	if !known {
		return // the policy at that time is not known here
	}
	policy := spec.CatchUp
	starts := func(at int64) time.Time { return spec.start(name, time.UnixMicro(at).UTC()) }
	stood := map[int64]int64{} // by the time of a decision, the latest due time of it that was not missed
	for _, g := range rows {
		if g.Outcome != string(jobs.Missed) && g.ReasonCode != reason.Calendar {
			stood[g.DecidedAt] = max(stood[g.DecidedAt], g.At)
		}
	}
	for _, g := range rows {
		if g.Replica == "" || g.ReasonCode == reason.Calendar {
			continue // no policy catches up with what an edit overtakes, or a calendar leaves out
		}
		last := max(g.At, g.Until)
		decided := time.UnixMicro(g.DecidedAt)
		late := decided.Sub(starts(last))
		missed, old := g.Outcome == string(jobs.Missed), late > policy.Window
		standing := g.ReasonCode != reason.SkipNext && g.ReasonCode != reason.Suspended // it was asked whether it may run
		switch {
		case spec.Closed == nil && decided.Sub(starts(g.At)) > policy.Grace != (g.Cause == string(jobs.CauseCatchUp)):
			w.violate(name, "job %s decided %s at %s, and its cause is %s", name, clock(g.At), clock(g.DecidedAt), g.Cause)
		case missed && late < policy.Grace:
			w.violate(name, "job %s missed %s, within its grace", name, clock(g.At))
		case missed && !old:
			w.judgeMissed(spec, name, g, stood[g.DecidedAt] > g.At)
		case !missed && standing && late > policy.Grace:
			w.judgeCaughtUp(spec, name, g, old)
		}
	}
}

// judgeMissed: a late due time within the window is missed only if its policy says so. With w.mu held.
func (w *world) judgeMissed(spec job, name string, g memstore.Trigger, stood bool) {
	switch policy := spec.CatchUp; policy.Policy {
	case jobs.CatchUpLatest:
		if !stood {
			w.violate(name, "job %s missed %s, and nothing stands for it", name, clock(g.At))
		}
	case jobs.CatchUpAll:
		if later, _ := spec.lateAfter(name, max(g.At, g.Until), g.DecidedAt); later < policy.Limit {
			w.violate(name, "job %s missed %s, and of %d late due times after it, %d of which may be made up for, none is beyond the limit", name, clock(g.At), later, policy.Limit)
		}
		w.counted["missed beyond a limit"]++
	}
}

// judgeCaughtUp: a late due time was made up for only if its policy says so. With w.mu held.
func (w *world) judgeCaughtUp(spec job, name string, g memstore.Trigger, old bool) {
	policy := spec.CatchUp
	later, fresh := spec.lateAfter(name, g.At, g.DecidedAt)
	switch {
	case policy.Policy == jobs.CatchUpNone:
		w.violate(name, "job %s made up for %s, which its policy forbids", name, clock(g.At))
	case old:
		w.violate(name, "job %s made up for %s at %s, and its window is %v", name, clock(g.At), clock(g.DecidedAt), policy.Window)
	case policy.Policy == jobs.CatchUpLatest && (later > 0 || fresh):
		w.violate(name, "job %s made up for %s at %s, and a later due time stood for it", name, clock(g.At), clock(g.DecidedAt))
	case policy.Policy == jobs.CatchUpAll && later >= policy.Limit:
		w.violate(name, "job %s made up for %s at %s, which %d late due times follow, %d of them may be", name, clock(g.At), clock(g.DecidedAt), later, policy.Limit)
	}
	w.counted["caught up "+string(policy.Policy)]++
}

// lateAfter counts the due times after one that are late at a moment, and may run by the job's calendars; and says whether another one has started by then that is not late.
func (j job) lateAfter(name string, after, decided int64) (late int, fresh bool) {
	now := time.UnixMicro(decided)
	for due := j.Times.next(time.UnixMicro(after).UTC()); !due.After(now); due = j.Times.next(due) {
		if _, runs := j.Closed.runsAt(j.Times, due); !runs {
			continue
		}
		switch start := j.start(name, due); {
		case start.After(now):
			return late, fresh
		case start.Before(now.Add(-j.CatchUp.Grace)):
			late++
		default:
			return late, true
		}
		if late > j.CatchUp.Limit { // enough, and there may be thousands
			return late, fresh
		}
	}
	return late, fresh
}
