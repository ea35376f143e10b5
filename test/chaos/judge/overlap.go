package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// frozenMargin is how long after the end of a freeze a command may still show: it is killed as soon as its
// warden runs again.
const frozenMargin = 500 * time.Millisecond

// overlaps is I3b: no more commands of a job run at the same time than it has slots, one with concurrency forbid, queue and replace where it says nothing else, nor do those of
// any one task, nor those that hold one lock, also under "locks exec", by their output, from start to last beat.
//
// There are two excuses. helper-frozen: if the warden that ends an attempt in time is frozen itself, with the
// attempt's replica, the attempt cannot be ended until the freeze is over and 0.5 s more; nor can that of a worker that is frozen, which may have been before
// it began with its task. helper-down: if it
// was killed with the replica, descendants of a command go on. Both are counted. A killed, disconnected or
// frozen replica alone excuses nothing. Of commands with a lock so does what its driver declares, as in I14.
func (t *trial) overlaps() {
	t.orphans()
	type key struct {
		task    string
		attempt int
		token   int64
	}
	outputs := map[string]map[key]*output{} // job, task, or lock →
	note := func(who string, e history.Effect) {
		if outputs[who] == nil {
			outputs[who] = map[key]*output{}
		}
		k := key{e.TaskID, e.Attempt, e.Token}
		l := outputs[who][k]
		if l == nil {
			l = &output{e.At, e}
			outputs[who][k] = l
		}
		if e.At.Before(l.first) {
			l.first = e.At
		}
		if e.At.After(l.last.At) {
			l.last = e
		}
	}
	for _, e := range t.h.Effects {
		if e.What != history.Start && e.What != history.Beat && e.What != history.End {
			continue
		}
		j := t.jobs[e.Job]
		slotted := e.Job != "" && j.Concurrency != "allow"
		if slotted {
			note(e.Job, e)
		}
		if !slotted || j.MaxRunning > 1 {
			note("task "+e.TaskID, e)
		}
		if key := t.lockOf(e); key != "" {
			note(locked+key, e)
		}
	}
	for _, l := range t.h.Locked {
		note(locked+strings.TrimPrefix(l.Key, userKeys), t.effectOf(l))
	}
	t.outlived()
	for who, all := range outputs {
		sorted := slices.SortedFunc(maps.Values(all), func(a, b *output) int {
			return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.last.Token, b.last.Token))
		})
		if strings.HasPrefix(who, locked) {
			t.lockTokens(who, sorted)
		}
		slots := max(t.jobs[who].MaxRunning, 1)
		var beside []*output // those before that are still at work
		for _, l := range sorted {
			beside = slices.DeleteFunc(beside, func(b *output) bool { return !b.last.At.After(l.first) })
			t.overlap(who, slots, beside, l)
			beside = append(beside, l)
		}
	}
}

// locked is how the subject of commands begins that hold one lock.
const locked = "lock "

// lockOf is the lock that a command holds; empty: none.
func (t *trial) lockOf(e history.Effect) string {
	if e.Job != "" {
		return t.jobs[e.Job].Lock
	}
	return t.pools[e.Pool].Lock
}

// taken reports whether the lock service may have given the lock of older to another one before its replica could know.
func (t *trial) taken(older *output, at time.Time, length time.Duration) bool {
	if t.outOfReach(older.last.Replica, at, length) {
		return true
	}
	store, lock, _ := strings.Cut(t.run.Cell, "+")
	return store == lock && t.excused(at, at, "", history.StoreClock) // its clock decides when leases end
}

// overlap judges what is still at work when another one begins.
func (t *trial) overlap(who string, slots int, beside []*output, newer *output) {
	if len(beside) < slots {
		return
	}
	beside = slices.SortedFunc(slices.Values(beside), func(a, b *output) int { return b.last.At.Compare(a.last.At) })
	length := func(older *output) time.Duration { return older.last.At.Sub(newer.first) }
	counts := slices.DeleteFunc(slices.Clone(beside), func(older *output) bool { return t.mayOverlap(who, older, newer, length(older)) })
	if len(counts) < slots {
		t.report.Overlaps++
		t.report.Longest = max(t.report.Longest, length(beside[slots-1]))
		return
	}
	older := counts[slots-1]
	t.violate(NoOverlap, who, newer.first, "%v was at work for %v after the start of %v", older, ms(length(older)), newer)
}

// mayOverlap reports whether the older one could not be ended in time.
func (t *trial) mayOverlap(who string, older, newer *output, length time.Duration) bool {
	frozen := !older.ofExec() && slices.ContainsFunc(t.h.Windows, func(w history.Window) bool { // "locks exec" has a warden of its own
		return w.Applied && has(w, history.HelperFrozen) && w.Strikes(older.last.Replica) && w.Began.Before(newer.first) &&
			!older.last.At.After(w.Healed.Add(frozenMargin+t.run.Slack))
	})
	again := older.last.TaskID == newer.last.TaskID && newer.last.Token < older.last.Token // the older attempt has begun later
	return frozen || t.frozenWorker(older.last, newer.first) || again && t.frozenWorker(newer.last, newer.first) || t.abandoned(older.last, newer.first) || strings.HasPrefix(who, locked) && t.taken(older, newer.first, length)
}

// output is what the command of one attempt wrote.
type output struct {
	first time.Time
	last  history.Effect
}

func (l output) String() string {
	if l.ofExec() {
		return fmt.Sprintf("the command of %s (token %d)", l.last.TaskID, l.last.Token)
	}
	return fmt.Sprintf("attempt %d of %s (token %d, %s)", l.last.Attempt, l.last.TaskID, l.last.Token, l.last.Replica)
}
