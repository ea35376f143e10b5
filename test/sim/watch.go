package sim

import (
	"reflect"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// watch gets each row that a transaction changed, in the order of the commits, and makes the checks that are
// possible at once.
func (w *world) watch(c memstore.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settleEvents(c.Commit)
	note := func() { w.history = append(w.history, entry{at: time.Now(), by: c.By, change: c}) }
	switch r := c.After.(type) {
	case nil:
		w.watchGone(c)
	case memstore.Task:
		note()
		before, existed := c.Before.(memstore.Task)
		w.watchTask(c, before, existed, r)
	case memstore.Done:
		note()
		before, existed := c.Before.(memstore.Done)
		w.watchDone(c, before, existed, r)
	case memstore.Trigger:
		note()
		before, existed := c.Before.(memstore.Trigger)
		w.late.runs[memstore.TriggerKey{Job: r.Job, At: r.At, Seq: r.Seq}] = r
		w.watchTrigger(before, existed, r)
	case memstore.Job:
		note()
		before, existed := c.Before.(memstore.Job)
		w.watchFailures(c.Op, before, r)
		w.watchJob(before, existed, r)
	case memstore.Pause:
		note()
		w.watchPause(ledger.ReadPause(r.Said))
	case memstore.Pool:
		note()
		before, _ := c.Before.(memstore.Pool)
		w.judgePoolGoverns(before, r)
		w.watchPoolDefinition(before, r)
		w.watchPauseOn(c, before, r)
		w.watchPool(r)
	case memstore.LockWait:
		note()
		w.watchWait(r)
	case memstore.Chunk:
		w.watchChunk(r)
	case memstore.Order:
		note()
		before, existed := c.Before.(memstore.Order)
		w.watchOrder(before, existed, r)
	case memstore.Expectation:
		note()
		w.watchExpectation(r)
	case memstore.Event:
		note()
		w.watchEvent(r)
		switch jobs.Event(r.Event) {
		case jobs.EventLate:
			w.watchTold(r)
		case jobs.EventSuspended:
			w.watchSuspended(r)
		}
	case memstore.Definition:
		if r.UntilAt != 0 {
			w.redefined[r.Job] = r.UntilAt
		}
	case memstore.Session:
		note()
		before, existed := c.Before.(memstore.Session)
		w.watchSession(c, before, existed, r)
	}
}

// watchGone gets a deleted row. Rows that leave tasks matter here; the row of done comes next.
func (w *world) watchGone(c memstore.Change) {
	if _, is := c.Before.(memstore.Pause); is {
		w.watchPause(ledger.Pause{})
		return
	}
	if r, is := c.Before.(memstore.LockWait); is {
		delete(w.waits, waitKey{r.Key, r.TaskID})
		delete(w.abandoned, r.TaskID)
		return
	}
	if r, is := c.Before.(memstore.Event); is {
		w.watchRouted(r)
		return
	}
	if r, is := c.Before.(memstore.Expectation); is {
		w.watchLooked(r)
		return
	}
	if r, is := c.Before.(memstore.Order); is && r.State == string(wire.OrderOpen) {
		w.violate(r.Job, "order %s of %s is gone, and was open", r.ID, r.Job)
		return
	}
	r, is := c.Before.(memstore.Task)
	if !is {
		return
	}
	delete(w.slotted[r.Job], r.ID)
	delete(w.queued[r.Job], r.ID)
	delete(w.ready[r.Pool], r.ID)
	if r.State == memstore.Running {
		w.inPool[r.Pool]--
	}
	w.watchKey(r, false, false, r.State == memstore.Running, true)
	w.watchKind(r, false, r.State == memstore.Running)
	w.watchShare(r, false, true)
	delete(w.owned, r.ID)
	delete(w.expiring, r.ID)
	delete(w.pending, r.ID)
	w.leaving[r.ID] = r
	w.noteBusy(c.Op, r)
}

func (w *world) watchTask(c memstore.Change, before memstore.Task, existed bool, r memstore.Task) {
	if _, ended := w.done[r.ID]; ended {
		w.violate(r.ID, "task %s came back after its end", r.ID)
	}
	w.watchSlot(before, existed, r)
	if !existed {
		before = memstore.Task{ID: r.ID}
	}
	began := r.State == memstore.Running && (!existed || before.State != memstore.Running)
	stopped := existed && before.State == memstore.Running && r.State != memstore.Running
	w.watchKey(r, !existed, began, stopped, false)
	w.watchKind(r, began, stopped)
	w.watchShare(r, began, false)
	w.watchExpiry(r, began)
	w.watchPriority(c.Op, before, existed, began, r)
	w.watchProgress(r)
	w.watchWaiting(r, began)
	switch {
	case began:
		w.inPool[r.Pool]++
		if w.pausedNow() {
			w.violate(r.ID, "task %s became running while everything was paused", r.ID)
		}
		if w.unknownPool[r.Pool] {
			w.violate(r.ID, "task %s was claimed in pool %s, which no configuration has", r.ID, r.Pool)
		}
		if w.paused[r.Pool] {
			w.violate(r.ID, "task %s was claimed in pool %s, which is paused", r.ID, r.Pool)
		}
		if owner := w.replicas[r.Replica]; owner != nil && owner.node.index%2 != 0 && r.Job != "" && w.onlyInZone(r.Job) {
			w.violate(r.ID, "task %s was claimed by %s, where %s does not run", r.ID, r.Replica, r.Job)
		}
		if owner := w.replicas[r.Replica]; owner != nil && w.plan.Pools[r.Pool].RunsOn != nil {
			if w.counted["starts where a pool runs"]++; owner.node.index%2 != 0 {
				w.violate(r.ID, "task %s was claimed by %s, where pool %s does not run", r.ID, r.Replica, r.Pool)
			}
		}
		w.watchStart(r)
		w.watchFirst(r)
		if existed && before.State != memstore.Ready && before.State != memstore.Locked {
			w.violate(r.ID, "task %s was claimed while it waited", r.ID)
		}
		if r.Attempt != before.Attempt+1 || r.Token <= before.Token {
			w.violate(r.ID, "the claim of %s made attempt %d token %d of attempt %d token %d", r.ID, r.Attempt, r.Token, before.Attempt, before.Token)
		}
		if r.Job != "" && r.Token <= w.token[r.Job] {
			w.violate(r.Job, "job %s: token %d after %d", r.Job, r.Token, w.token[r.Job])
		}
		w.token[r.Job] = r.Token
		w.owned[r.ID] = r.Token
		w.claims[claimKey{r.ID, r.Token}] = claim{by: r.Replica, session: r.Session, mayRun: r.MayRunUntil, defined: w.governs[ruledBy(r.Job, r.Pool)]}
	case existed && r.State == memstore.Running:
		k := claimKey{r.ID, r.Token}
		was := w.claims[k]
		if r.MayRunUntil < was.mayRun {
			w.violate(r.ID, "task %s may run until %d, and was told %d", r.ID, r.MayRunUntil, was.mayRun)
		}
		was.mayRun = r.MayRunUntil
		w.claims[k] = was
		if before.Token != r.Token {
			w.violate(r.ID, "the token of running task %s moved from %d to %d", r.ID, before.Token, r.Token)
		}
	case stopped:
		w.inPool[r.Pool]--
		delete(w.owned, r.ID)
		if before.Token != r.Token {
			w.violate(r.ID, "task %s has token %d after attempt with %d", r.ID, r.Token, before.Token)
		}
		if run := w.runs[claimKey{r.ID, r.Token}]; run != nil && c.Op == "finish" {
			if counts := r.Attempt == before.Attempt; run.snoozed && (counts || r.State != memstore.Waits || r.Failures != before.Failures) {
				w.violate(r.ID, "task %s was snoozed, and is in state %v with attempt %d after attempt %d", r.ID, r.State, r.Attempt, before.Attempt)
			}
		}
		if c.Op == "finish" && r.Failures > before.Failures {
			w.countEnd(c, r.Pool, true)
		}
		if c.Op == "finish" && r.State == memstore.Waits {
			w.judgeRetried(before, true, r.ReasonCode)
			w.judgeTimedOut(before, r.ReasonCode)
		}
		w.noteBusy(c.Op, before)
		w.judgeLoss(c.Op, before, r.Reason)
	case existed && before.State == memstore.Ready && r.State == memstore.Waits && c.Op != "update task":
		w.violate(r.ID, "task %s waits after it was ready", r.ID)
	}
}

// noteBusy notes until when an attempt may still run whose replica is gone. With w.mu held.
func (w *world) noteBusy(op string, r memstore.Task) {
	if op == "reap" && r.State == memstore.Running {
		if w.busy[r.Job] == nil {
			w.busy[r.Job] = map[string]int64{}
		}
		w.busy[r.Job][r.ID] = max(w.busy[r.Job][r.ID], r.MayRunUntil)
	}
}

func (w *world) watchDone(c memstore.Change, before memstore.Done, existed bool, r memstore.Done) {
	retried := before
	retried.RetriedAs, retried.Fingerprint = r.RetriedAs, r.Fingerprint
	if existed && before.RetriedAs != r.RetriedAs && reflect.DeepEqual(retried, r) {
		w.retried[r.ID] = true
		return // it was retried, perhaps again
	}
	if existed {
		if before.State != string(jobs.StateLost) || before.Late || !r.Late || before.Token != r.Token {
			w.violate(r.ID, "task %s ended as %s, and then as %s", r.ID, before.State, r.State)
		}
		w.counted["late"]++
		delete(w.busy[r.Job], r.ID) // its attempt has ended
	}
	w.countRun(r.Job, jobs.State(r.State), existed)
	if state := jobs.State(r.State); c.Op == "finish" && !existed && (state == jobs.StateSucceeded || state == jobs.StateFailed) {
		w.countEnd(c, r.Pool, state == jobs.StateFailed)
	}
	w.watchEnd(r)
	w.done[r.ID] = r.State
	row, was := w.leaving[r.ID]
	delete(w.leaving, r.ID)
	if !existed && (!was || row.Token != r.Token) {
		w.violate(r.ID, "task %s ended as %s with token %d, its row had %d", r.ID, r.State, r.Token, row.Token)
	}
	w.judgeLoss(c.Op, row, r.Reason)
	if c.Op == "finish" && !existed && r.State == string(jobs.StateFailed) {
		w.judgeRetried(row, false, r.ReasonCode)
		w.judgeTimedOut(row, r.ReasonCode)
	}
	w.judgeCancelled(r)
	w.judgeExpired(r)
	w.judgeReplaced(r)
	runs := w.runs[claimKey{r.ID, r.Token}]
	switch jobs.State(r.State) {
	case jobs.StateSucceeded:
		if runs == nil || !runs.ok {
			w.violate(r.ID, "task %s succeeded in the record, and did not in fact", r.ID)
		}
	case jobs.StateFailed:
		if runs == nil || runs.snoozed {
			w.violate(r.ID, "task %s failed in the record, and never started or was snoozed", r.ID)
		}
	}
	if c.Op == "finish" && runs != nil {
		w.judgeEndTime(runs, r)
	}
	w.counted["task "+r.State]++
}

// judgeEndTime: by the record an attempt ended when it did in fact, however late that was recorded, unless the database's clock was set meanwhile.
func (w *world) judgeEndTime(is *run, r memstore.Done) {
	if w.offset != 0 || !w.high.IsZero() || is.to.IsZero() {
		return
	}
	if off := is.to.UnixMicro() - r.FinishedAt; off < 0 || off > 1 { // the database's time is cut to microseconds
		w.violate(r.ID, "task %s ended at %s, and by the record at %s", r.ID, clock(is.to.UnixMicro()), clock(r.FinishedAt))
	}
	if time.Since(is.to) > time.Second {
		w.counted["ends recorded later"]++
	}
}

func (w *world) watchTrigger(before memstore.Trigger, existed bool, r memstore.Trigger) {
	switch {
	case !existed:
		w.counted["triggers"]++
		w.countSchedule(r)
		w.committed[memstore.TriggerKey{Job: r.Job, At: r.At, Seq: r.Seq}] = time.Now()
		w.judgeLateness(r)
		w.judgeSkip(r)
		w.judgePutOff(r)
		w.judgeFailures(r)
		w.judgeHeld(r)
		if r.Order != "" {
			w.judgeOrdered(r)
		}
		w.watchCovering(r)
		w.watchMissed(r)
		if (r.Seq == 0 || r.Order != "") && r.Replica != "" && w.pausedNow() { // else an edit has overtaken it
			w.violate(r.Job, "job %s: its due time %s was decided while everything was paused", r.Job, clock(r.At))
		}
	case before.Outcome != "" && before != r && (before.Outcome != string(jobs.Lost) || r.Outcome != string(jobs.Ran)):
		w.violate(r.Job, "the row of %s at %s ended as %s, and then as %s", r.Job, clock(r.At), before.Outcome, r.Outcome)
	}
	if r.Outcome != before.Outcome {
		w.counted["outcome "+r.Outcome]++
	}
}

func (w *world) watchJob(before memstore.Job, existed bool, r memstore.Job) {
	if existed && (r.Cursor < before.Cursor || r.Fence < before.Fence) {
		w.violate(r.Name, "job %s: cursor from %s to %s, fence from %d to %d", r.Name, clock(before.Cursor), clock(r.Cursor), before.Fence, r.Fence)
	}
	w.scheduled[r.Name], w.cursors[r.Name] = r.Schedule, r.Cursor
	w.judgeGoverns(before, r)
	w.governs[r.Name] = r.Hash
	w.watchRetired(r.Name, before.Hash, r.Hash)
	w.watchHeld(before, r)
	if before.Schedule == r.Schedule {
		return
	}
	if list := w.epochs[r.Name]; len(list) > 0 && list[len(list)-1].until == 0 {
		list[len(list)-1].until = max(before.Cursor, w.redefined[r.Name])
	}
	if now := time.Now().Add(w.offset - time.Millisecond); r.Schedule != "" && r.Cursor < now.UnixMicro() && !w.weather.bad(-1, time.Time{}, dbSteps) {
		w.violate(r.Name, "job %s has another schedule since %s, and what was due by it before may run, from %s on", r.Name, clock(now.UnixMicro()), clock(r.Cursor))
	}
	if j, known := w.schedules[r.Name+r.Schedule]; known {
		w.epochs[r.Name] = append(w.epochs[r.Name], epoch{times: j.Times, closed: j.Closed, from: r.Cursor})
	}
}

func (w *world) watchSession(c memstore.Change, before memstore.Session, existed bool, r memstore.Session) {
	if known := w.replicas[r.Replica]; known != nil && !existed {
		known.joined = time.Now()
		w.sessions[r.ID] = known
	}
	if owner := w.sessions[r.ID]; owner != nil {
		w.judgeConfig(owner, r.Config)
	}
	w.judgeNumber(r)
	if r.Beat > before.Beat {
		w.beats[r.ID] = time.Now()
		w.judgeAbandoned()
		w.judgeRetired()
		w.judgeExpiring()
	}
	if r.Dead && !before.Dead {
		w.abandon(r.ID)
	}
	if c.Op == "expire" {
		w.expired[r.ID] = true
	}
	if owner := w.sessions[r.ID]; owner != nil && r.Dead && !before.Dead && c.Op == "expire" {
		w.judgeExpiry(owner)
	}
}
