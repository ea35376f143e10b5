package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Events and their notifications. The judge knows from the other rows of a transaction which events it has to write, and compares what arrives with what was
// written: an event is written with what it tells of, becomes one task, and that is sent at least once.

// subject names an event: what happened to which task, or due time.
type subject struct {
	event jobs.Event
	of    string // a task, or a due time of a job
	code  string // of a run that is late: in what
}

func subjectOf(event jobs.Event, task, of string, at int64, code string) subject {
	s := subject{event: event, of: cmp.Or(task, of+"@"+clock(at))}
	if event == jobs.EventLate {
		s.code = code
	}
	return s
}

func subjectOfEvent(e memstore.Event) subject {
	at := e.TriggerAt
	if e.Event == string(jobs.EventPaused) {
		at = e.HappenedAt
	}
	return subjectOf(jobs.Event(e.Event), e.TaskID, cmp.Or(e.Job, e.Pool), at, string(e.ReasonCode))
}

// telling is what is known of events.
type telling struct {
	commit  int                        // the transaction whose rows come
	owed    map[subject]memstore.Event // what it has to write
	allowed map[subject]bool           // and may
	came    []memstore.Event           // what it wrote
	good    map[string][]string        // the tasks that succeeded in it, by job or pool
	bad     map[string]bool            // what failed in it
	failing map[string]bool            // before it

	written map[subject][]memstore.Event // all
	since   map[subject]bool             // those that were written after the faults were healed, or routed after all had come to rest
	rested  bool                         // all has
	at      map[string]time.Time         // when events were written, by id
	asked   map[subject]memstore.Event   // those that somebody asked for when they were routed
	sent    map[subject][]sent           // what receivers took
	hashes  map[string]string            // of pools, as the rows have them
}

// sent is a notification that a receiver has taken.
type sent struct{ id, task, key string }

func newTelling() telling {
	return telling{
		owed: map[subject]memstore.Event{}, allowed: map[subject]bool{}, good: map[string][]string{}, bad: map[string]bool{}, failing: map[string]bool{},
		written: map[subject][]memstore.Event{}, since: map[subject]bool{}, at: map[string]time.Time{}, asked: map[subject]memstore.Event{}, sent: map[subject][]sent{}, hashes: map[string]string{},
	}
}

// happens notes what a transaction has to tell of, if somebody asks for it: in any case, but for starts and successes. With w.mu held.
func (w *world) happens(e memstore.Event) {
	t := &w.telling
	if e.Job == "" && e.Pool == naming.NotificationsPool {
		return // notifications have none
	}
	any, all := true, true
	if is := jobs.Event(e.Event); is == jobs.EventStarted || is == jobs.EventSucceeded {
		any, all = w.asked(e.Job, e.Pool, is)
	}
	if s := subjectOfEvent(e); all {
		t.owed[s], t.allowed[s] = e, true
	} else if any {
		t.allowed[s] = true
	}
}

// watchFirst notes a start of a task, if it is its first attempt. With w.mu held.
func (w *world) watchFirst(r memstore.Task) {
	if r.Attempt == 1 {
		w.happens(memstore.Event{
			Event: string(jobs.EventStarted), Job: r.Job, Pool: r.Pool, TriggerAt: r.TriggerAt, TriggerSeq: r.TriggerSeq, Count: 1, TaskID: r.ID, Attempt: 1, Replica: r.Replica,
			HappenedAt: r.StartedAt,
		})
	}
}

// watchEnd notes the end of a task. With w.mu held.
func (w *world) watchEnd(r memstore.Done) {
	e := memstore.Event{
		Job: r.Job, Pool: r.Pool, TriggerAt: r.TriggerAt, TriggerSeq: r.TriggerSeq, Count: 1, TaskID: r.ID, Attempt: r.Attempt, Replica: r.Replica, Reason: r.Reason,
		ReasonCode: r.ReasonCode, Error: r.Error, HappenedAt: r.FinishedAt,
	}
	by := ruledBy(r.Job, r.Pool)
	switch jobs.State(r.State) {
	case jobs.StateSucceeded:
		e.Event = string(jobs.EventSucceeded)
		w.telling.good[by] = append(w.telling.good[by], r.ID)
	case jobs.StateFailed:
		e.Event, w.telling.bad[by] = string(jobs.EventFailed), true
	case jobs.StateLost:
		e.Event, w.telling.bad[by] = string(jobs.EventLost), true
	default:
		return
	}
	w.happens(e)
}

// watchMissed notes a row of due times that were missed. With w.mu held.
func (w *world) watchMissed(g memstore.Trigger) {
	if g.Outcome == string(jobs.Missed) {
		w.telling.bad[g.Job] = true
		w.happens(memstore.Event{
			Event: string(jobs.EventMissed), Job: g.Job, TriggerAt: g.At, TriggerSeq: g.Seq, Until: g.Until, Count: g.Count, Replica: g.Replica, Reason: g.Reason,
			ReasonCode: g.ReasonCode, HappenedAt: g.DecidedAt,
		})
	}
}

// watchEvent gets a new event. With w.mu held.
func (w *world) watchEvent(e memstore.Event) {
	w.counted["event "+e.Event]++
	s := subjectOfEvent(e)
	w.telling.came = append(w.telling.came, e)
	w.telling.at[e.ID] = time.Now()
	w.telling.written[s] = append(w.telling.written[s], e)
	if !w.healed.IsZero() {
		w.telling.since[s] = true
	}
}

// settleEvents judges the transaction before: it has written one event of each thing that it has to tell of, with what that was, and no other. With w.mu held.
func (w *world) settleEvents(commit int) {
	t := &w.telling
	if commit == t.commit {
		return
	}
	recovered := map[string]bool{}
	for _, e := range t.came {
		s, by := subjectOfEvent(e), ruledBy(e.Job, e.Pool)
		want, owed := t.owed[s]
		e.ID = ""
		switch s.event {
		case jobs.EventLate, jobs.EventSuspended: // judged with what they are about
			continue
		case jobs.EventRecovered:
			if recovered[by] || !t.failing[by] || t.bad[by] || !slices.Contains(t.good[by], e.TaskID) {
				w.violate(e.TaskID, "%s is told to have recovered by task %s, failing %v, with %v that succeeded and others that failed %v", by, e.TaskID, t.failing[by], t.good[by], t.bad[by])
			}
			recovered[by] = true
			continue
		}
		switch {
		case !t.allowed[s]:
			w.violate(cmp.Or(e.TaskID, e.Job), "an event tells that %s of %s %s, which did not happen then, or nobody asks for", s.of, by, s.event)
		case owed && e != want:
			w.violate(cmp.Or(e.TaskID, e.Job), "an event tells that %s of %s %s: %+v, and it was %+v", s.of, by, s.event, e, want)
		}
		delete(t.owed, s)
		delete(t.allowed, s)
	}
	for s, e := range t.owed {
		w.violate(cmp.Or(e.TaskID, e.Job), "%s of %s %s, and no event tells of it", s.of, ruledBy(e.Job, e.Pool), s.event)
	}
	for by := range t.good {
		if t.failing[by] && !t.bad[by] && !recovered[by] && by != poolOf+naming.NotificationsPool {
			w.violate(t.good[by][0], "%s has recovered with %v, and no event tells of it", by, t.good[by])
		}
		t.failing[by] = false
	}
	for by := range t.bad {
		t.failing[by] = by != poolOf+naming.NotificationsPool
	}
	clear(t.owed)
	clear(t.allowed)
	clear(t.good)
	clear(t.bad)
	t.came, t.commit = nil, commit
}

// sends gets a notification that a receiver has taken: it tells of an event that was written, and all that tell of one have its id and are one task, or retried by
// a user. With w.mu held.
func (w *world) sends(t jobs.Task) {
	n := told(t)
	at := n.ScheduledAt
	if n.Event == jobs.EventPaused {
		at = n.At
	}
	s := subjectOf(n.Event, n.TaskID, cmp.Or(n.Job, n.Pool), at.UnixMicro(), string(n.ReasonCode))
	w.counted["told "+string(n.Event)]++
	if _, asked := w.telling.asked[s]; !asked {
		w.violate(t.ID, "notification %s is sent, and nobody asks for it", n.ID)
	}
	if !slices.ContainsFunc(w.telling.written[s], func(e memstore.Event) bool { return tells(n, e) }) {
		w.violate(t.ID, "notification %+v is sent, and the events are %+v", n, w.telling.written[s])
	}
	for _, other := range w.telling.sent[s] {
		switch {
		case other.id != n.ID || other.task == t.ID && other.key != t.IdempotencyKey, other.task != t.ID && t.RetryOf == "" && !w.retried[other.task]:
			w.violate(t.ID, "notification %s is sent by task %s with the key %q, and was by %+v", n.ID, t.ID, t.IdempotencyKey, other)
		default:
			w.counted["told again"]++
		}
	}
	w.telling.sent[s] = append(w.telling.sent[s], sent{n.ID, t.ID, t.IdempotencyKey})
}

// tells reports whether a notification says what an event does.
func tells(n jobs.Notification, e memstore.Event) bool {
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	until, count := e.Until, e.Count
	if n.Event != jobs.EventMissed {
		until, count = 0, 0
	} else if until == 0 {
		until = e.TriggerAt
	}
	same := func(is time.Time, us int64) bool { return us == 0 && is.IsZero() || is.Equal(at(us)) }
	return n.Job == e.Job && n.Pool == e.Pool && same(n.ScheduledAt, e.TriggerAt) && same(n.Until, until) && n.Count == count && n.TaskID == e.TaskID && n.Attempt == e.Attempt &&
		n.Replica == e.Replica && n.Reason == e.Reason && n.ReasonCode == e.ReasonCode && n.Error == e.Error && n.At.Equal(at(e.HappenedAt)) && n.Text != ""
}

// keptFor is how long the events of a job or pool are kept that no configuration has.
const keptFor = 10 * time.Minute

// routedWithin is how long an event waits at most where nothing is wrong: each second the replicas ask whether there are some, and the answer may be a second old.
const routedWithin = 2500 * time.Millisecond

// watchRouted gets an event that is gone: the definition that governs says whether it is told. What no configuration has is kept in case it returns. With w.mu held.
func (w *world) watchRouted(e memstore.Event) {
	s := subjectOfEvent(e)
	is, written := w.hashOf(e.Job, e.Pool), w.telling.at[e.ID]
	if waited := time.Since(written); waited > routedWithin && w.plan.Edited == nil && w.weather.calm(written.Add(-3*w.plan.TTL-3*time.Second)) {
		w.violate(cmp.Or(e.TaskID, e.Job), "%s of %s was seen %v after it happened, and nothing was wrong", s.event, s.of, waited)
	}
	if age := w.latest().Sub(time.UnixMicro(e.HappenedAt)); is == "" && age < keptFor {
		w.violate(cmp.Or(e.TaskID, e.Job), "%s of %s was dropped %v after it happened, and its job or pool may return", s.event, s.of, age)
	}
	for version, set := range w.plan.versions() {
		n, hash := w.plan.pools(version)[e.Pool].Notify, w.pools[version][e.Pool]
		if e.Job != "" {
			n, hash = set[e.Job].Notify, w.defined[version][e.Job]
		}
		if is != "" && hash == is && wants(n, s.event) {
			w.telling.asked[s] = e
			if w.telling.rested { // a job or pool has returned since
				w.telling.since[s] = true
			}
		}
	}
}

// hashOf is the hash of the definition that governs; "": there is none. With w.mu held.
func (w *world) hashOf(job, pool string) string {
	if job != "" {
		return w.governs[job]
	}
	return w.telling.hashes[pool]
}

// untold is what was not told of a task or job, that happened before all faults were healed, and is asked for; "" if there is nothing. With w.mu held.
func (w *world) untold(rows memstore.Rows) (about, what string) {
	for _, e := range rows.Events {
		if s := subjectOfEvent(e); !w.telling.since[s] && !w.telling.rested && w.hashOf(e.Job, e.Pool) != "" {
			return cmp.Or(e.TaskID, e.Job), string(s.event) + " of " + s.of + " is kept"
		}
	}
	for s, e := range w.telling.asked {
		if !w.telling.since[s] && len(w.telling.sent[s]) == 0 && !w.givenUp(rows, s) {
			return cmp.Or(e.TaskID, e.Job), string(s.event) + " of " + s.of + " was asked for"
		}
	}
	return "", ""
}

// givenUp reports whether the task of a notification ended without success, as users, an edit or the death of three replicas may have it. With w.mu held.
func (w *world) givenUp(rows memstore.Rows, s subject) bool {
	for id, r := range rows.Done {
		if r.Pool != naming.NotificationsPool {
			continue
		}
		n := told(jobs.Task{Payload: r.Payload})
		if subjectOf(n.Event, n.TaskID, n.Job, n.ScheduledAt.UnixMicro(), string(n.ReasonCode)) != s {
			continue
		}
		_, all := w.asked(n.Job, n.Pool, n.Event)
		if w.unwanted[id] || r.State == string(jobs.StateLost) && r.Losses >= r.LostLimit || r.ReasonCode == reason.CancelledByHandler && !all {
			return true
		}
	}
	return false
}
