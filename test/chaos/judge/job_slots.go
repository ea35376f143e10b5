package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// States of tasks, and codes of reasons, that say who has a slot of a job.
const (
	queued      = "queued"
	codeFull    = "queue_full"
	codeTaken   = "slot_taken"
	codeReplace = "replaced"
)

// jobSlots is the part of I3 about the slots of jobs, which all have but those with concurrency allow:
//
//   - No more tasks have one than there are; a lost attempt has its slot until it can no longer run. Only what has a slot runs, see taskMove.
//   - With queue at most queue_limit tasks wait, with replace one, and with forbid none. They get slots in due order, none is overtaken, and a due
//     time finds the queue full only if it is. One that waited before the database's clock was set back may come before one that was opened since.
//   - With replace what waits has had an older task told to stop, or waits for one that was lost. A task is replaced by one that came after it, see replaced.
//   - With forbid a due time is skipped only if all slots are taken.
//   - What waits does so no longer than a due time for its decision, counted from when a slot was free.
//
// All changes but ends, and requests to end, are made with the job's row locked, and the last one of such a transaction is that of this row. So the audit has
// the transactions one after the other, and what one decision leaves is judged by the row of its job. What ends meanwhile counts as there for seen.
//
// No excuses, but for the time that the last one takes.
func (t *trial) jobSlots() {
	all := map[string]*jobSlots{}
	for name, j := range t.jobs {
		if j.Concurrency != "allow" {
			all[name] = &jobSlots{trial: t, Job: j, has: map[string]history.Row{}, waits: map[string]history.Row{}, lost: map[string]history.Row{}, opened: map[string]bool{}}
		}
	}
	for _, c := range t.h.Audit {
		if s := all[changed(c).Job]; s != nil {
			s.read(c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		all[name].waited(t.ended)
	}
}

// jobSlots are the slots of one job while the audit is read.
type jobSlots struct {
	*trial
	history.Job
	has, waits, lost map[string]history.Row // tasks
	left             []leftSlot             // tasks that ended
	got              []history.Change       // what gave a slot, in the present transaction
	opened           map[string]bool        // tasks of the present transaction that wait
	says             []history.Change       // rows of due times of the present transaction that say that there is no room
	freeSince        time.Time              // a slot is free, and a task waits; zero: it is not so, or not known
}

// leftSlot is a task that had a slot, or waited for one, and ended.
type leftSlot struct {
	at     time.Time
	waited bool
}

func (s *jobSlots) read(c history.Change) {
	switch c.Table {
	case "jobs":
		s.decided(c)
	case "tasks":
		s.task(c)
	case "done":
		r := c.After
		if r != nil && r.Late == 0 && (r.State == "lost" || r.State == "cancelled") && r.Until > c.At {
			s.lost[r.ID] = *r
		} else if r != nil {
			delete(s.lost, r.ID)
		}
	case "triggers":
		switch r := c.After; {
		case c.Before != nil || r == nil || r.Code != codeFull && r.Code != codeTaken:
		case r.Seq > 0 && r.Code == codeTaken: // a run by hand that finds no slot changes nothing of the job's row
			s.noRoom(c)
		default:
			s.says = append(s.says, c)
		}
	}
	if c.Table != "jobs" {
		s.look(c)
	}
}

// task follows a task through the slots.
func (s *jobSlots) task(c history.Change) {
	if c.After == nil {
		_, waited := s.waits[c.Before.ID]
		s.left = append(s.left, leftSlot{dbTime(c.At), waited})
		delete(s.has, c.Before.ID)
		delete(s.waits, c.Before.ID)
		return
	}
	r := *c.After
	if _, had := s.has[r.ID]; had {
		s.has[r.ID] = r
		return
	}
	if r.State == queued {
		if c.Before == nil {
			s.opened[r.ID] = true
		}
		if s.waits[r.ID] = r; c.Before == nil && s.Concurrency == "replace" && !s.endsSoon(c) {
			s.violate(Slots, s.Name, dbTime(c.At), "replace: task %s waits for a slot, and nothing was told to stop", r.ID)
		}
		return
	}
	delete(s.waits, r.ID)
	s.has[r.ID] = r
	s.got = append(s.got, c)
	if lost := s.lostAt(c, r); len(s.has)+lost > s.slots() {
		s.violate(Slots, s.Name, dbTime(c.At), "%s, and %d tasks at once: %s, and %d lost ones that may run: %s", s.policy(), len(s.has)+lost, keys(s.has), lost, keys(s.lost))
	}
}

func (s *jobSlots) policy() string { return cmp.Or(s.Concurrency, "forbid") }

// slots is how many the job has.
func (s *jobSlots) slots() int { return max(s.MaxRunning, 1) }

// lostAt is how many lost attempts may run when a task gets a slot: by the clock that the decision has read, where that is known.
func (s *jobSlots) lostAt(c history.Change, r history.Row) (n int) {
	now := c.At
	if c.Before == nil {
		now = r.CreatedAt
	}
	for _, l := range s.lost {
		if l.Until > now && s.sameClock(c.Seq) {
			n++
		}
	}
	return n
}

// decided judges what a transaction leaves that has written the job's row.
func (s *jobSlots) decided(c history.Change) {
	limit := map[string]int{"queue": s.QueueLimit, "replace": 1}[s.Concurrency]
	if len(s.waits) > limit {
		s.violate(Slots, s.Name, dbTime(c.At), "%s, and %d tasks wait for a slot where %d may: %s", s.policy(), len(s.waits), limit, keys(s.waits))
	}
	for _, got := range s.got {
		r := got.After
		for _, w := range s.waits {
			if setBack := got.Before != nil && s.opened[w.ID] && r.CreatedAt > w.CreatedAt; dueBefore(w, *r) && !setBack {
				s.violate(Slots, s.Name, dbTime(c.At), "task %s got a slot, and %s waits, which was due before it", r.ID, w.ID)
			}
		}
	}
	for _, said := range s.says {
		s.noRoom(said)
	}
	s.got, s.says, s.opened = nil, nil, map[string]bool{}
	s.look(c)
}

// noRoom judges a row that says so.
func (s *jobSlots) noRoom(c history.Change) {
	taken, waiting := s.hadSince(dbTime(c.After.DecidedAt).Add(-seen - s.run.Slack))
	switch {
	case c.After.Code == codeFull && waiting < s.QueueLimit:
		s.violate(Accounted, subject(*c.After), dbTime(c.At), "skipped as the queue is full, and %d of %d wait", waiting, s.QueueLimit)
	case c.After.Code == codeTaken && taken < s.slots():
		s.violate(Accounted, subject(*c.After), dbTime(c.At), "skipped as all slots are taken, and %d of %d are", taken, s.slots())
	}
}

// hadSince is how many slots are taken, and how many tasks wait, with those that have ended since a moment.
func (s *jobSlots) hadSince(from time.Time) (taken, waiting int) {
	taken, waiting = len(s.has)+len(s.lost), len(s.waits)
	for _, l := range s.left {
		switch {
		case l.at.Before(from) && !s.steps():
		case l.waited:
			waiting++
		default:
			taken++
		}
	}
	return taken, waiting
}

// endsSoon reports whether a slot is about to be free: its task was told to stop, or was lost, or has just ended.
func (s *jobSlots) endsSoon(c history.Change) bool {
	for _, r := range s.has {
		if r.Cancel != "" {
			return true
		}
	}
	taken, _ := s.hadSince(dbTime(c.At).Add(-seen - s.run.Slack))
	return taken > len(s.has)
}

// look notes since when a task waits though a slot is free, and judges it when that is over.
func (s *jobSlots) look(c history.Change) {
	free := len(s.has) < s.slots() && len(s.waits) > 0
	switch {
	case !s.sameClock(c.Seq):
		s.freeSince = time.Time{}
	case !free:
		s.waited(dbTime(c.At))
		s.freeSince = time.Time{}
	case s.freeSince.IsZero():
		s.freeSince = dbTime(c.At)
		for _, l := range s.lost { // it has its slot until then
			s.freeSince = maxTime(s.freeSince, dbTime(l.Until))
		}
	}
}

// lookAgain is how soon a job is looked at again of which a task waits for a slot.
const lookAgain = time.Second

// waited judges how long a task has waited beside a free slot, at a moment.
func (s *jobSlots) waited(until time.Time) {
	if s.freeSince.IsZero() {
		return
	}
	if by := s.deadline(s.freeSince.Add(lookAgain)); until.After(by) {
		s.violate(OnTime, s.Name, until, "%s: a slot was free for %v, and %d tasks waited for one: %v are allowed", s.policy(), ms(until.Sub(s.freeSince)), len(s.waits), ms(by.Sub(s.freeSince)))
	}
}

// dueBefore reports whether a task was due before another one of its job. One that a client had run again was due when it was asked for.
func dueBefore(a, b history.Row) bool {
	due := func(r history.Row) int64 {
		if r.RetryOf != "" {
			return r.CreatedAt
		}
		return r.At
	}
	return cmp.Or(cmp.Compare(due(a), due(b)), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID)) < 0
}
