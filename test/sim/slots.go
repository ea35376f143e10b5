package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawSlots lets runs of some jobs wait for a slot, or replace others, and gives some jobs more than one slot. It is drawn apart, so that other seeds stay as
// they are.
func (p *plan) drawSlots(d draw) {
	names := slices.Collect(maps.Keys(p.Jobs))
	for name := range p.Edited {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !d.chance(0.3) {
			continue
		}
		policy := pick(d, jobs.Queue, jobs.Queue, jobs.Replace, jobs.Replace, jobs.Forbid)
		slots, limit := pick(d, 0, 0, 2, 3), 1+d.IntN(3)
		if policy == jobs.Forbid {
			slots = max(slots, 2)
		}
		for _, set := range p.versions() {
			j, has := set[name]
			if !has {
				continue
			}
			if j.Concurrency, j.MaxRunning, j.QueueLimit = policy, slots, 0; policy == jobs.Queue {
				j.QueueLimit = limit
			}
			set[name] = j
		}
	}
}

// slots is how many slots a job has, by the version that has most; false if one has no limit. With w.mu held.
func (w *world) slots(name string) (n int, limited bool) {
	for _, j := range w.specs[name] {
		if j.Concurrency == jobs.Allow {
			return 0, false
		}
		n = max(n, j.MaxRunning, 1)
	}
	return n, n > 0
}

// policy is the policy that all versions of a job have; "" if there is none. With w.mu held.
func (w *world) policy(name string) jobs.Concurrency {
	var policy jobs.Concurrency
	for i, j := range w.specs[name] {
		if is := cmp.Or(j.Concurrency, jobs.Forbid); i > 0 && is != policy {
			return ""
		} else {
			policy = is
		}
	}
	return policy
}

// queueLimit is how many runs of a job may wait for a slot, by the version that lets most. With w.mu held.
func (w *world) queueLimit(name string) (most int) {
	for _, j := range w.specs[name] {
		switch j.Concurrency {
		case jobs.Queue:
			most = max(most, cmp.Or(j.QueueLimit, limits.Queue))
		case jobs.Replace:
			most = max(most, 1)
		}
	}
	return most
}

// lostSlots is how many attempts of a job may run at a moment, in microseconds, whose task has no slot any more. With w.mu held.
func (w *world) lostSlots(name string, now int64) (n int) {
	for id, until := range w.busy[name] {
		if _, slotted := w.slotted[name][id]; !slotted && until > now {
			n++
		}
	}
	return n
}

// dueBefore reports whether a run was due before another one of its job. A run that a user retried was due when that was.
func dueBefore(a, b memstore.Task) bool {
	due := func(r memstore.Task) int64 {
		if r.RetryOf != "" {
			return r.CreatedAt
		}
		return r.TriggerAt
	}
	return cmp.Or(cmp.Compare(due(a), due(b)), cmp.Compare(a.TriggerSeq, b.TriggerSeq), strings.Compare(a.ID, b.ID)) < 0
}

// watchSlot: a job has no more runs than slots, those of its lost attempts included. What waits for a slot gets it in due order, and no more wait than may. A run that
// replaces another one waits until that has ended. With w.mu held.
func (w *world) watchSlot(before memstore.Task, existed bool, r memstore.Task) {
	if r.Job == "" {
		return
	}
	if w.slotted[r.Job] == nil {
		w.slotted[r.Job], w.queued[r.Job] = map[string]memstore.Task{}, map[string]memstore.Task{}
	}
	slotted, queued := w.slotted[r.Job], w.queued[r.Job]
	waited := existed && before.State == memstore.Queued
	if r.State == memstore.Queued {
		queued[r.ID] = r
		most := w.queueLimit(r.Job)
		if w.backfilling(r.Job) { // a due time waits for its end
			most = max(most, 1)
		}
		switch {
		case existed && !waited:
			w.violate(r.Job, "task %s of %s had a slot, and waits for one", r.ID, r.Job)
		case !existed && len(queued) > most:
			w.violate(r.Job, "%d runs of %s wait for a slot, and %d may", len(queued), r.Job, most)
		case !existed && w.policy(r.Job) == jobs.Replace && !w.endsSoon(r.Job):
			w.violate(r.Job, "task %s of %s waits for a slot, and nothing was replaced", r.ID, r.Job)
		}
		w.counted["waits for a slot"]++
		return
	}
	if existed && !waited {
		slotted[r.ID] = r
		return
	}
	now := r.CreatedAt
	if waited {
		delete(queued, r.ID)
		now = w.latest().UnixMicro()
		w.counted["slots after a wait"]++
		for _, other := range queued {
			if dueBefore(other, r) {
				w.violate(r.Job, "task %s of %s got a slot before %s, which was due before it", r.ID, r.Job, other.ID)
			}
		}
		if w.heldOf(r.Job).At(w.latest()).Holds(false) && r.TriggerSeq == 0 && r.RetryOf == "" {
			w.violate(r.Job, "job %s is suspended, and task %s got a slot", r.Job, r.ID)
		}
	} else if w.policy(r.Job) == jobs.Queue && len(queued) > 0 {
		w.violate(r.Job, "task %s of %s has a slot, and %d runs waited before it", r.ID, r.Job, len(queued))
	}
	slotted[r.ID] = r
	slots, limited := w.slots(r.Job)
	if lost := w.lostSlots(r.Job, now); limited && len(slotted)+lost > slots {
		w.violate(r.Job, "job %s has %d slots, and %d runs have one when %s gets one at %s: %v, and %d lost ones %v", r.Job, slots, len(slotted)+lost, r.ID, clock(now), slices.Sorted(maps.Keys(slotted)), lost, w.busy[r.Job])
	}
}

// endsSoon reports whether a slot of a job is about to be free: its run was told to stop, or was lost. With w.mu held.
func (w *world) endsSoon(name string) bool {
	for _, r := range w.slotted[name] {
		if r.Cancel != "" {
			return true
		}
	}
	return len(w.busy[name]) > 0
}

// judgeSkip: a due time is skipped for want of a slot only if none is free, and by the policy of its job. With w.mu held.
func (w *world) judgeSkip(g memstore.Trigger) {
	policy := w.policy(g.Job)
	if g.Outcome != string(jobs.Skipped) || policy == "" {
		return
	}
	slots, _ := w.slots(g.Job)
	switch {
	case g.ReasonCode == reason.QueueFull && (policy != jobs.Queue || len(w.queued[g.Job]) < w.queueLimit(g.Job) && w.plan.Edited == nil):
		w.violate(g.Job, "job %s: the due time %s finds no place in the queue, and %d runs wait", g.Job, clock(g.At), len(w.queued[g.Job]))
	case (g.ReasonCode == reason.SlotTaken || g.ReasonCode == reason.LostMayRun) && policy != jobs.Forbid:
		w.violate(g.Job, "job %s: the due time %s is skipped, %s, and the policy is %s", g.Job, clock(g.At), g.ReasonCode, policy)
	case g.ReasonCode == reason.SlotTaken && w.plan.Edited == nil && len(w.slotted[g.Job])+len(w.busy[g.Job]) < slots:
		w.violate(g.Job, "job %s: the due time %s is skipped, and %d of %d slots are taken", g.Job, clock(g.At), len(w.slotted[g.Job]), slots)
	case g.ReasonCode == reason.SlotTaken && g.Seq == 0 && w.backfilling(g.Job) && len(w.queued[g.Job]) == 0:
		w.violate(g.Job, "job %s: the due time %s is skipped for a run of a backfill", g.Job, clock(g.At))
	case g.ReasonCode == reason.Replaced && policy != jobs.Replace:
		w.violate(g.Job, "job %s: the due time %s was replaced, and the policy is %s", g.Job, clock(g.At), policy)
	}
	if g.ReasonCode == reason.QueueFull || g.ReasonCode == reason.Replaced {
		w.counted["skipped "+string(g.ReasonCode)]++
	}
}

// judgeReplaced: what was replaced was cancelled, by a newer run of its job. With w.mu held.
func (w *world) judgeReplaced(r memstore.Done) {
	if r.ReasonCode != reason.Replaced {
		return
	}
	w.counted["task replaced"]++
	if w.policy(r.Job) != jobs.Replace && w.policy(r.Job) != "" || r.State != string(jobs.StateCancelled) || !strings.HasPrefix(strings.TrimPrefix(r.Reason, "late: "), "replaced by the run of ") {
		w.violate(r.ID, "task %s of %s was replaced, and ended as %s: %s", r.ID, r.Job, r.State, r.Reason)
	}
}
