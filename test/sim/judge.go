package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// judge checks what is left when the world has come to rest.
func (w *world) judge(end time.Time) {
	w.db.Look(func(rows memstore.Rows) {
		w.mu.Lock()
		defer w.mu.Unlock()
		byJob := map[string][]memstore.Trigger{}
		for k, g := range rows.Triggers {
			if k.Seq == 0 {
				byJob[k.Job] = append(byJob[k.Job], g)
			}
			if !w.retired[g.Job] {
				w.judgeRow(g)
			}
		}
		for name, row := range rows.Jobs {
			if w.suspendsAfter(name) > 0 && row.Failures != w.failures[name] {
				w.violate(name, "job %s counts %d runs that failed in a row, and there are %d", name, row.Failures, w.failures[name])
			}
		}
		for name := range w.specs {
			w.judgeCatchUp(name, byJob[name])
			w.judgeCoverage(name, byJob[name], end)
		}
		for id := range w.acked {
			switch r, is := rows.Tasks[id]; {
			case w.done[id] != "", is && w.retired[r.Job]:
			case is && w.removed[r.Pool] && r.State != memstore.Running:
				w.counted["waits for its pool"]++
			default:
				w.violate(id, "task %s was acknowledged and has not ended", id)
			}
		}
		w.judgeResults(rows)
		w.judgeChunks(rows)
		w.judgeLate()
		w.judgeSuspended()
		w.settlePauses()
		w.settleEvents(0)
		if about, what := w.untold(rows); about != "" {
			w.violate(about, "%s, and nobody was told", what)
		}
		w.judgeOrders(rows)
		keys := map[string]string{}
		for id, r := range rows.Done {
			if other := keys[r.Pool+"/"+r.Key]; r.Key != "" && other != "" {
				w.violate(id, "key %s made two tasks, %s and %s", r.Key, id, other)
			}
			keys[r.Pool+"/"+r.Key] = id
		}
	})
}

// judgeRow: a row of the ledger has ended, has a reason, and agrees with the facts.
func (w *world) judgeRow(g memstore.Trigger) {
	if g.DecidedAt > w.healed.UnixMicro() {
		return // after the plan was over
	}
	switch o := jobs.Outcome(g.Outcome); {
	case o == "" && w.committed[memstore.TriggerKey{Job: g.Job, At: g.At, Seq: g.Seq}].After(w.left):
		// Its COMMIT took longer than the last replica lived: the next one to start would end it.
	case o == "":
		w.violate(g.Job, "the row of %s at %s is open", g.Job, clock(g.At))
	case o != jobs.Ran && g.Reason == "":
		w.violate(g.Job, "the row of %s at %s is %s and does not say why", g.Job, clock(g.At), o)
	case (o == jobs.Skipped || o == jobs.Missed) && w.starts[g.TaskID] > 0:
		w.violate(g.Job, "the row of %s at %s is %s, and its task started", g.Job, clock(g.At), o)
	case o == jobs.Ran && w.starts[g.TaskID] == 0 && g.Result != string(jobs.StateCancelled): // then a claim that froze before its start, at least
		w.violate(g.Job, "the row of %s at %s ran, and its task never started", g.Job, clock(g.At))
	}
}

// judgeCoverage: each due time is covered by one row, and there are no others.
func (w *world) judgeCoverage(name string, rows []memstore.Trigger, end time.Time) {
	slices.SortFunc(rows, func(a, b memstore.Trigger) int { return cmp.Compare(a.At, b.At) })
	for _, e := range w.epochs[name] {
		cursor, until := time.UnixMicro(e.from).UTC(), end
		if e.until != 0 {
			until = time.UnixMicro(e.until)
		}
		for len(rows) > 0 {
			g := rows[0]
			first, last := time.UnixMicro(g.At).UTC(), time.UnixMicro(max(g.At, g.Until)).UTC()
			if e.until != 0 && first.After(until) {
				break
			}
			w.judgeLeftOut(name, e, g)
			if want := e.times.next(cursor); !first.Equal(want) {
				w.violate(name, "job %s: after %v comes a row for %v, not %v", name, cursor, first, want)
			} else if n := e.times.count(cursor, last); n != g.Count || !e.times.due(last) {
				w.violate(name, "job %s: the row from %v to %v counts %d, there are %d", name, first, last, g.Count, n)
			}
			switch overtaken := g.Replica == ""; { // by an edit: then it did not start
			case e.until != 0 && last.After(until), last.After(w.latest()), !overtaken && w.startOf(name, last).After(w.latest()):
				w.violate(name, "job %s: a row for %v, which is not due yet", name, last)
			case overtaken && (e.until == 0 || g.ReasonCode != reason.ScheduleChanged && g.ReasonCode != reason.JobRemoved && g.ReasonCode != reason.Calendar && g.ReasonCode != reason.Suspended):
				w.violate(name, "job %s: no replica has decided the row for %v, %s %s", name, last, g.Outcome, g.Reason)
			}
			cursor, rows = last, rows[1:]
		}
		want := e.closed.owed(e.times, cursor, until)
		if next := e.times.next(cursor); e.until != 0 && !next.After(until) {
			want = next
		}
		if !want.IsZero() {
			w.violate(name, "job %s: nothing covers %v (until %v)", name, want, until)
		}
	}
	if len(rows) > 0 {
		w.violate(name, "job %s: rows outside of every schedule, from %s on", name, clock(rows[0].At))
	}
}

// storeFaults are those that delay what is due.
var storeFaults = []string{refuses, storeDown, loses, hangs, slows, stalls, repeats, pauses}

// answered is how long after a fault of the store its last call may still wait for an answer.
const answered = 11 * time.Second

// onTime is how late a decision may be without faults: other replicas leave it to the owner of its stripe for
// longer.
const onTime = 200 * time.Millisecond

// judgeLateness: a due time is not decided before it starts. While the store works, it is decided within 1.1 seconds if at most one replica does
// not work, and within two otherwise. Some time after the last fault it is decided on time. With w.mu held.
func (w *world) judgeLateness(g memstore.Trigger) {
	now := time.Now()
	due := w.startOf(g.Job, time.UnixMicro(g.At).UTC())
	if g.Seq == 0 && g.Replica != "" { // else an edit has overtaken it
		w.judgeStart("a row of the ledger", g.Job, time.UnixMicro(max(g.At, g.Until)).UTC())
	}
	if g.ReasonCode == reason.Calendar {
		return // an hour may pass
	}
	late := now.Add(w.offset).Sub(due)
	before := now.Add(-late - answered)
	waits := w.specs[g.Job][0].CatchUp.Policy == jobs.CatchUpAll // for its slot
	if w.pausedSince(now.Add(-late - 3*time.Second)) {           // it was held
		return
	}
	if late > onTime && !waits && g.Seq == 0 && g.Until == 0 && w.plan.Edited == nil && w.weather.calm(now.Add(-late-3*w.plan.TTL-3*time.Second)) {
		w.violate(g.Job, "job %s, due at %s, was decided %v late, and nothing was wrong", g.Job, clock(g.At), late)
	}
	if g.Seq > 0 || late <= time.Second || g.Until != 0 || w.plan.Edited != nil || w.weather.bad(-1, before, append(storeFaults, dbSteps)...) {
		return
	}
	if w.plan.WhenDown == scheduler.DownWait || waits {
		return
	}
	good, bad := 0, 0
	for _, r := range w.replicas {
		switch {
		case r.isDead() && !r.killed:
		case !r.isDead() && !r.joined.IsZero() && r.joined.Before(now.Add(-late-3*time.Second)) && r.drained.IsZero() && !r.frozenSince(before) &&
			!w.weather.bad(r.node.index, before, storeFaults...):
			good++
		default:
			bad++
		}
	}
	limit := 2 * time.Second
	if bad <= 1 {
		limit = 1100 * time.Millisecond
	}
	if good > 0 && late > limit {
		w.violate(g.Job, "job %s, due at %s, was decided %v late, with %d replicas that work and %d that do not", g.Job, clock(g.At), late, good, bad)
	}
}

// untouched reports whether no fault can have reached a replica since a moment, but for those of the lock
// service. With w.mu held.
func (w *world) untouched(r *replica, since time.Time) bool {
	return !r.killed && !r.frozenSince(since) && !w.weather.bad(-1, since, append(storeFaults, dbSteps)...) &&
		!w.weather.bad(r.node.index, since, storeFaults...)
}

// judgeLoss: nothing is lost with a replica that drained in time, nor with one without faults. With w.mu held.
func (w *world) judgeLoss(op string, row memstore.Task, reason string) {
	r := w.sessions[row.Session]
	if r == nil {
		return
	}
	me := w.runs[claimKey{row.ID, row.Token}]
	gaveUp := op == "finish" && strings.HasPrefix(reason, "this replica's session could not be renewed")
	switch {
	case op == "reap" && !r.drained.IsZero() && !w.expired[row.Session] && w.leavesClean(r) && (me == nil || !me.ignores):
		w.violate(row.ID, "task %s was lost with replica %s, which drained", row.ID, row.Replica)
	case gaveUp && w.untouched(r, time.Now().Add(-answered)):
		w.violate(row.ID, "replica %s gave task %s up, and nothing was wrong with it", row.Replica, row.ID)
	case gaveUp && me != nil && !me.to.IsZero():
		w.judgeGivenUp(r, row, me)
	}
}

// leavesClean reports whether a replica that drains can know its own tasks by the end, whatever the faults
// before: only calls that reach the store late are unknown to it. With w.mu held.
func (w *world) leavesClean(r *replica) bool {
	before := r.drained.Add(-answered)
	late := []string{hangs, slows, stalls, dbSteps}
	return w.untouched(r, r.drained) && !r.frozenSince(before) && !w.weather.bad(-1, before, late...) && !w.weather.bad(r.node.index, before, late...)
}

// lockFaults reports whether the lock service may have delayed a replica since a moment.
func (w *world) lockFaults(r *replica, since time.Time) bool {
	kinds := []string{lockBusy, lockLoses, lockRefuse, lockSlow, lockStop, lockForget}
	return w.weather.bad(-1, since, kinds...) || w.weather.bad(r.node.index, since, kinds...)
}

// judgeGivenUp: an attempt whose replica cannot reach the store goes on until nearly the first due time after
// the last heartbeat, if no other attempt may start in its place sooner, or until its timeout. With w.mu held.
func (w *world) judgeGivenUp(r *replica, row memstore.Task, me *run) {
	specs, beat := w.specs[row.Job], me.beat
	if len(specs) == 0 || len(specs[0].Locks) > 0 || w.plan.Edited != nil || specs[0].Concurrency == jobs.Allow || specs[0].Concurrency.Queues() || specs[0].OnLost == jobs.LostRetries ||
		!beat.After(me.from) || me.to.Before(beat.Add(w.plan.TTL/2)) || r.frozenSince(me.from) || w.weather.bad(-1, time.Time{}, dbSteps) {
		return
	}
	for _, index := range []int{-1, r.node.index} {
		if w.weather.bad(index, beat.Add(-time.Second), refuses, loses, hangs, slows, stalls) {
			return
		}
	}
	until := specs[0].Closed.nextRun(specs[0].Times, beat.Add(-w.plan.TTL/2))
	if timeout := me.from.Add(specs[0].Timeout); timeout.Before(until) {
		until = timeout
	}
	if me.to.Before(until.Add(-w.plan.TTL/5 - time.Second/2)) {
		w.violate(row.ID, "replica %s gave task %s up at %v, which might have run until %v", r.id, row.ID, me.to, until)
	}
}

// judgeConfig: a process has one configuration, and so one number, however often it joins: with a new one, or
// none, an old file would govern again, or a new one no more. With w.mu held.
func (w *world) judgeConfig(r *replica, number int64) {
	if r.config != 0 && number != r.config && !r.replaced && w.activations == 0 {
		w.violate(r.id, "%s loaded configuration %d, and has number %d now", r.id, r.config, number)
	}
	r.config = number
}

// runsOn reports whether an attempt executes in a replica that ignores its context. With w.mu held.
func (w *world) runsOn(r *replica) bool {
	for _, list := range w.active {
		if slices.ContainsFunc(list, func(me *run) bool { return me.r == r && me.ignores }) {
			return true
		}
	}
	return false
}

// judgeExpiry: no session expires by a fault that all replicas share. One that drains lets it expire if an attempt does not end. With w.mu held.
func (w *world) judgeExpiry(r *replica) {
	since := time.Now().Add(-answered)
	if !r.drained.IsZero() && w.runsOn(r) || r.killed || r.isDead() || r.frozenSince(since) || w.weather.bad(r.node.index, since, storeFaults...) ||
		w.weather.bad(-1, since, loses, hangs, slows, stalls, repeats) || w.weather.partly(since, refuses) {
		return
	}
	w.violate(r.id, "replica %s was declared dead, and nothing was wrong with it alone", r.id)
}
