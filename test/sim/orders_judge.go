package sim

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// order is one of a user, as it was committed first, and its runs.
type order struct {
	id, job  string
	asked    ledger.Asked
	state    string
	schedule string      // hash of the job's
	due      []time.Time // of a backfill
	made     []memstore.TriggerKey
	rate     rated
	acked    bool
	over     bool // a user was told that it is cancelled
}

// dueKey is a due time of a job, whatever asked for its runs.
type dueKey struct {
	job string
	at  int64
}

// watchOrder gets the row of an order.
func (w *world) watchOrder(before memstore.Order, existed bool, r memstore.Order) {
	if !existed {
		w.watchOrdered(r)
		return
	}
	o := w.orders[r.ID]
	if before.State != string(wire.OrderOpen) {
		w.violate(r.Job, "order %s of %s was %s, and is %s", r.ID, r.Job, before.State, r.State)
	}
	is := r.Order()
	if is.Progress.Made > before.Order().Progress.Made {
		w.judgeUndecided(o)
	}
	if o.state = r.State; r.State == string(wire.OrderOpen) {
		return
	}
	w.counted["order "+r.State]++
	switch b := o.asked.Backfill; {
	case r.State == string(wire.OrderCancelled) && r.ReasonCode == reason.Cancelled && !w.unwanted[r.ID]:
		w.violate(r.Job, "order %s of %s was cancelled, and nobody has asked for it", r.ID, r.Job)
	case r.State == string(wire.OrderCancelled) && r.ReasonCode == reason.ScheduleChanged && w.scheduled[r.Job] == o.schedule:
		w.violate(r.Job, "order %s of %s was cancelled as its schedule was changed, which it was not", r.ID, r.Job)
	case r.State == string(wire.OrderCancelled):
	case b == nil && len(o.made) != 1:
		w.violate(r.Job, "order %s of %s is %s, and has made %d runs", r.ID, r.Job, r.State, len(o.made))
	case b != nil:
		w.judgeBackfilled(o, is.Progress)
	}
}

// watchOrdered gets a new order: a backfill is of the due times that the job's schedule had then.
func (w *world) watchOrdered(r memstore.Order) {
	is := r.Order()
	o := &order{id: r.ID, job: r.Job, asked: is.Asked, state: r.State, schedule: w.scheduled[r.Job]}
	w.orders[r.ID] = o
	b := o.asked.Backfill
	if b == nil {
		return
	}
	o.rate = rated{limits: ledger.Limits{Rate: b.Rate}}
	e := w.epochs[r.Job][len(w.epochs[r.Job])-1]
	for at := e.times.next(b.From.Add(-time.Nanosecond)); at.Before(b.To); at = e.times.next(at) {
		if _, runs := e.closed.runsAt(e.times, at); runs {
			o.due = append(o.due, at)
		}
	}
	if len(o.due) != is.Asked.DueTimes {
		w.violate(r.Job, "order %s of %s is of %d due times, and there are %d from %v to %v", r.ID, r.Job, is.Asked.DueTimes, len(o.due), b.From, b.To)
	}
}

// judgeOrdered gets a new row of the ledger that an order made. With w.mu held.
func (w *world) judgeOrdered(g memstore.Trigger) {
	o := w.orders[g.Order]
	k, at := memstore.TriggerKey{Job: g.Job, At: g.At, Seq: g.Seq}, time.UnixMicro(g.At).UTC()
	switch {
	case o == nil || o.job != g.Job:
		w.violate(g.Job, "job %s runs at %v for order %s, which it has not", g.Job, at, g.Order)
		return
	case o.state != string(wire.OrderOpen) || o.over:
		w.violate(g.Job, "order %s of %s is %s, and makes a run at %v", o.id, o.job, o.state, at)
	case o.asked.Backfill != nil:
		w.judgeBackfill(o, g, at)
	case len(o.made) > 0:
		w.violate(g.Job, "order %s of %s makes a second run", o.id, o.job)
	case !at.Equal(o.asked.At) || g.DecidedAt < g.At || g.Cause != string(jobs.CauseManual):
		w.violate(g.Job, "order %s of %s is for %v, and makes a run for %v at %s, cause %s", o.id, o.job, o.asked.At, at, clock(g.DecidedAt), g.Cause)
	}
	o.made = append(o.made, k)
	w.counted["runs of orders"]++
}

// judgeBackfill: a run of a backfill is of one of its due times, the oldest first, which has not run; no more of them are open than it may have at once, nor made than its rate
// lets it; and due times keep a slot. With w.mu held.
func (w *world) judgeBackfill(o *order, g memstore.Trigger, at time.Time) {
	b, open := o.asked.Backfill, 1
	for _, k := range o.made {
		if w.late.runs[k].Outcome == "" {
			open++
		}
	}
	slots, limited := w.slots(o.job)
	_, alike := w.alike(o.job)
	switch {
	case !slices.ContainsFunc(o.due, at.Equal) || g.Cause != string(jobs.CauseBackfill):
		w.violate(o.job, "order %s of %s makes a run for %v, cause %s, which is none of its due times", o.id, o.job, at, g.Cause)
	case len(o.made) > 0 && o.made[len(o.made)-1].At >= g.At:
		w.violate(o.job, "order %s of %s makes a run for %v after that for %s", o.id, o.job, at, clock(o.made[len(o.made)-1].At))
	case w.scheduled[o.job] != o.schedule:
		w.violate(o.job, "order %s of %s makes a run for %v, and the schedule is another one", o.id, o.job, at)
	case open > b.MaxRunning:
		w.violate(o.job, "order %s of %s has %d runs at once, of at most %d", o.id, o.job, open, b.MaxRunning)
	case !b.Again && w.hasRun(g):
		w.violate(o.job, "order %s of %s makes a run for %v, which has run", o.id, o.job, at)
	case len(w.queued[o.job]) > 0 && limited:
		w.violate(o.job, "order %s of %s makes a run for %v, and %d wait for a slot", o.id, o.job, at, len(w.queued[o.job]))
	case limited && alike && slots > 1 && len(w.slotted[o.job])+w.lostSlots(o.job, g.DecidedAt) >= slots && len(w.specs[o.job]) == 1:
		w.violate(o.job, "order %s of %s makes a run for %v, and leaves no slot of %d to due times", o.id, o.job, at, slots)
	}
	if b.Rate.Interval() > 0 {
		w.judgeMadeBy(o, time.UnixMicro(g.DecidedAt))
	}
}

// judgeMadeBy: over no stretch of time are more runs made than the burst, and what the rate gives in it. Where the clock was stepped, it is not known. With w.mu held.
func (w *world) judgeMadeBy(o *order, now time.Time) {
	if w.weather.bad(-1, time.Time{}, dbSteps) {
		return
	}
	o.rate.at = append(o.rate.at, now)
	for i, from := range o.rate.at {
		if n, most := len(o.rate.at)-i, o.rate.limits.Rate.OneSecond()+int(now.Sub(from)/o.rate.limits.Rate.Interval()); n > most {
			w.violate(o.job, "order %s of %s makes %d runs in %v, and may make %d", o.id, o.job, n, now.Sub(from), most)
		}
	}
}

// hasRun reports whether another row says that the due time of this one has run, or is about to. With w.mu held.
func (w *world) hasRun(g memstore.Trigger) bool {
	return slices.ContainsFunc(w.covering[dueKey{g.Job, g.At}], func(k memstore.TriggerKey) bool {
		return k.Seq != g.Seq && ledger.HasRun(jobs.Outcome(w.late.runs[k].Outcome))
	})
}

// watchCovering notes rows of runs, by their due times. With w.mu held.
func (w *world) watchCovering(g memstore.Trigger) {
	k := dueKey{g.Job, g.At}
	w.covering[k] = append(w.covering[k], memstore.TriggerKey{Job: g.Job, At: g.At, Seq: g.Seq})
	w.ran[k] = w.ran[k] || ledger.HasRun(jobs.Outcome(g.Outcome))
}

// judgeUndecided: a backfill makes no run while a due time has started that is not decided. With w.mu held.
func (w *world) judgeUndecided(o *order) {
	spec, known := w.alike(o.job)
	if !known || len(o.made) == 0 {
		return
	}
	now := time.UnixMicro(w.late.runs[o.made[len(o.made)-1]].DecidedAt)
	for due := spec.Times.next(time.UnixMicro(w.cursors[o.job]).UTC()); !due.After(now); due = spec.Times.next(due) {
		if _, runs := spec.Closed.runsAt(spec.Times, due); runs && !spec.start(o.job, due).After(now) {
			w.violate(o.job, "order %s of %s makes a run at %v, and the due time %v is not decided", o.id, o.job, now, due)
			return
		}
	}
}

// judgeBackfilled: a backfill that is done has made a run of each of its due times, but for those that have run, and all of them have ended. With w.mu held.
func (w *world) judgeBackfilled(o *order, p ledger.OrderProgress) {
	if p.Made != len(o.made) || p.Made+p.Ran != len(o.due) || p.Succeeded+p.Failed+p.Cancelled != p.Made {
		w.violate(o.job, "order %s of %s is done with %+v, and %d of its %d due times were made", o.id, o.job, p, len(o.made), len(o.due))
	}
	for _, at := range o.due {
		made := slices.ContainsFunc(o.made, func(k memstore.TriggerKey) bool { return k.At == at.UnixMicro() })
		if !made && (o.asked.Backfill.Again || !w.ran[dueKey{o.job, at.UnixMicro()}]) {
			w.violate(o.job, "order %s of %s is done, and made no run for %v", o.id, o.job, at)
		}
	}
	for _, k := range o.made {
		if w.late.runs[k].Outcome == "" {
			w.violate(o.job, "order %s of %s is done, and its run for %s is open", o.id, o.job, clock(k.At))
		}
	}
}

// judgeOrders: no order is gone, and what is left open is of no job that was removed. With w.mu held.
func (w *world) judgeOrders(rows memstore.Rows) {
	for id, o := range w.orders {
		r, exists := rows.Orders[id]
		switch {
		case !exists:
			w.violate(o.job, "order %s of %s is gone (acknowledged: %v)", id, o.job, o.acked)
		case r.State == string(wire.OrderOpen) && w.retired[o.job]:
			w.violate(o.job, "order %s is open, and its job %s was removed", id, o.job)
		case r.State == string(wire.OrderOpen) && o.over:
			w.violate(o.job, "order %s of %s was cancelled, and is open", id, o.job)
		case r.ReasonCode == reason.JobRemoved && !w.everRetired[o.job]:
			w.violate(o.job, "order %s of %s was cancelled as if its job was removed", id, o.job)
		}
	}
}

// backfilling reports whether a run of a backfill has a slot of the job. With w.mu held.
func (w *world) backfilling(name string) bool {
	for _, r := range w.slotted[name] {
		if w.late.runs[memstore.TriggerKey{Job: r.Job, At: r.TriggerAt, Seq: r.TriggerSeq}].Cause == string(jobs.CauseBackfill) {
			return true
		}
	}
	return false
}
