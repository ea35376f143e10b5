package sim

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// run is one execution in the independent ledger.
type run struct {
	task     jobs.Task
	r        *replica
	version  int       // of its definition
	from, to time.Time // to zero: it goes on
	beat     time.Time // last heartbeat of its replica before it ended
	ok       bool
	snoozed  bool // its handler put the task off
	ignores  bool
	code     int  // that it failed with; 0: none
	asked    bool // to be retried
	stopped  bool // its context had ended
}

// started notes that an attempt begins, and judges whether it may; nil: its process has been killed.
//
// Frozen says that the process froze between the last check of its session and this, which cannot be prevented.
func (w *world) started(h *handler, t jobs.Task, b behaviour, frozen bool) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := h.r
	if r.isDead() {
		return nil
	}
	w.counted["starts"]++
	k := claimKey{t.ID, t.Token}
	c, claimed := w.claims[k]
	switch {
	case !claimed:
		w.violate(t.ID, "task %s started with token %d, which no claim has", t.ID, t.Token)
	case c.by != r.id:
		w.violate(t.ID, "task %s started on %s, token %d is %s's", t.ID, r.id, t.Token, c.by)
	}
	if claimed && w.owned[t.ID] != t.Token && !frozen {
		w.violate(t.ID, "task %s started with token %d on %s, when its row was no longer its own", t.ID, t.Token, r.id)
	}
	if w.runs[k] != nil {
		w.violate(t.ID, "task %s started twice with token %d", t.ID, t.Token)
	}
	if !r.drained.IsZero() && time.Since(r.drained) > time.Second/4 && w.untouched(r, r.drained.Add(-answered)) && !w.lockFaults(r, r.drained.Add(-answered)) {
		w.violate(t.ID, "task %s started on %s %v after that was told to drain", t.ID, r.id, time.Since(r.drained))
	}
	w.starts[t.ID]++
	if specs := w.specs[t.Job]; t.Job != "" && !slices.ContainsFunc(specs, func(j job) bool { return j.OnLost != jobs.LostFails }) {
		limit := 1
		for _, j := range specs {
			limit = max(limit, 1+j.Retries.Limit)
		}
		if w.starts[t.ID] > limit {
			w.violate(t.ID, "task %s of %s started %d times", t.ID, t.Job, w.starts[t.ID])
		}
	}
	if due := t.RunAt; w.latest().Before(due) || t.Seq == 0 && w.latest().Before(t.ScheduledAt) {
		w.violate(t.ID, "task %s, due at %v and %v, started at %v", t.ID, t.ScheduledAt, due, w.latest())
	}
	if t.Job != "" && t.Seq == 0 {
		w.judgeStart("task "+t.ID, t.Job, t.ScheduledAt)
		w.countDelays(t.Job)
	}
	me := &run{task: t, r: r, version: h.version, from: time.Now(), ignores: b.ignores}
	if claimed {
		w.judgeDefinition(me, c)
	}
	if t.Job != "" {
		w.judgeOverlaps(me)
	}
	if !frozen {
		w.judgeKeys(me)
	}
	r.running[t.Pool]++
	if n, most := r.running[t.Pool], w.plan.workers(t.Pool); n > most {
		w.violate(t.ID, "%d attempts of pool %s execute in %s, which has %d workers", n, t.Pool, r.id, most)
	}
	w.runs[k] = me
	w.active[t.Job] = append(w.active[t.Job], me)
	w.history = append(w.history, entry{
		at: time.Now(), by: r.id, format: "starts %s %s@%s/%d token %d attempt %d (%+v)",
		args: []any{t.ID, t.Job + t.Pool, clock(t.ScheduledAt.UnixMicro()), t.Seq, t.Token, t.Attempt, b},
	})
	return me
}

// judgeOverlaps: no more attempts of a job execute than it has slots, but for those whose process was frozen, or whose
// handler ignores its context, and whose deadline had passed.
func (w *world) judgeOverlaps(newer *run) {
	slots, limited := w.slots(newer.task.Job)
	if !limited {
		return
	}
	var at []*run
	for _, older := range w.active[newer.task.Job] {
		if !w.excused(older) {
			at = append(at, older)
		}
	}
	w.counted["overlaps"] += len(w.active[newer.task.Job])
	if len(at) < slots {
		return
	}
	older := at[0]
	c := w.claims[claimKey{older.task.ID, older.task.Token}]
	w.violate(newer.task.Job, "job %s, with %d slots: %s (token %d, may run until %s) and %d more still execute when %s (token %d) starts",
		newer.task.Job, slots, older.task.ID, older.task.Token, clock(c.mayRun), len(at)-1, newer.task.ID, newer.task.Token)
}

// excused reports whether an attempt may execute though its slot was given to another one.
func (w *world) excused(older *run) bool {
	c := w.claims[claimKey{older.task.ID, older.task.Token}]
	stepped := w.weather.bad(-1, older.from, dbSteps)
	excused := older.ignores || older.r.frozenSince(older.from) || stepped
	over := c.mayRun == 0 || !w.shows().Before(time.UnixMicro(c.mayRun)) || stepped
	return excused && over
}

// ended notes that an attempt has ended. Its last write is fenced.
func (w *world) ended(me *run, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	me.ok, me.beat = ok, w.beats[w.claims[claimKey{me.task.ID, me.task.Token}].session]
	if me.snoozed {
		w.counted["snoozed"]++
		w.starts[me.task.ID]-- // it does not count
	}
	if ok && me.task.Pool == naming.NotificationsPool {
		w.sends(me.task)
	}
	w.judgeTime(me)
	w.close(me)
	w.judgeTimeout(me)
	if job := me.task.Job; job != "" {
		if me.task.Token < w.fence[job] {
			w.counted["stale effects refused"]++
		}
		w.fence[job] = max(w.fence[job], me.task.Token)
	}
	w.history = append(w.history, entry{at: time.Now(), by: me.r.id, format: "ends %s token %d ok %v snoozed %v", args: []any{me.task.ID, me.task.Token, ok, me.snoozed}})
}

// judgeTime: a handler that obeys its context, in a process that runs, has ended when another attempt may start
// in its place: at the end of the trust window of its session, or of the time in its row.
func (w *world) judgeTime(me *run) {
	if me.ignores || me.r.frozenSince(me.from) || w.weather.bad(-1, me.from, dbSteps) {
		return
	}
	trusted := me.beat.Add(w.plan.TTL)
	granted := time.UnixMicro(w.claims[claimKey{me.task.ID, me.task.Token}].mayRun).Add(-w.offset)
	end := trusted
	if granted.After(end) {
		end = granted
	}
	if over := time.Since(end); over > 0 {
		w.violate(me.task.ID, "task %s (token %d) executes %v after its deadline: trusted until %v, granted until %v",
			me.task.ID, me.task.Token, over, trusted, granted)
	}
}

func (w *world) close(me *run) {
	if me.to.IsZero() {
		me.to = time.Now()
		me.r.running[me.task.Pool]--
	}
	w.active[me.task.Job] = slices.DeleteFunc(w.active[me.task.Job], func(other *run) bool { return other == me })
}

// cut ends all attempts of a process that is killed.
func (w *world) cut(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.killed = true
	w.history = append(w.history, entry{at: time.Now(), by: r.id, format: isKilled})
	for _, list := range w.active {
		for _, me := range slices.Clone(list) {
			if me.r == r {
				w.close(me)
			}
		}
	}
}
