package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// do starts one step.
func (w *world) do(s step) {
	if slices.Contains(faultKinds, s.Kind) {
		w.weather.stir(2 * s.For) // a trap may strike as late as after half of that
	}
	var n *node
	var r *replica
	if s.Replica >= 0 {
		n = w.nodes[s.Replica]
		r = n.current()
	}
	switch s.Kind {
	case refuses, storeDown, loses, hangs, slows, stalls, repeats, lockBusy, lockLoses, lockRefuse, lockSlow:
		w.spell(s, s.Replica, s.For)
	case pauses:
		w.pauseReplica(s, r)
	case kills, drains:
		w.stopReplica(s, n, r)
	case replaces, activates:
		w.replaceOn(s, n, r)
	case reloads, reverts:
		w.weather.note(s.Kind)
		n.mu.Lock()
		if n.version = 1; s.Kind == reverts {
			n.version = 0
		}
		n.mu.Unlock()
		w.steps.Go(func() { n.drain(s.For) })
	case lockStop:
		w.weather.note(s.Kind)
		w.spell(s, -1, s.For)
		w.locks.Stop()
		w.steps.Go(func() {
			time.Sleep(s.For)
			w.locks.Start()
		})
	case lockForget:
		w.weather.note(s.Kind)
		w.spell(s, -1, 2*w.plan.TTL)
		w.locks.Restart()
	case lockExpire:
		if r != nil && r.lock != nil {
			w.weather.note(s.Kind)
			w.spell(s, -1, w.plan.TTL)
			w.locks.Expire(r.lock.lastSession())
		}
	case wallSteps:
		w.weather.note(s.Kind)
		w.setWall(s.Replica, s.By)
	case dbSteps:
		w.weather.note(s.Kind)
		w.spell(s, -1, 3*w.plan.TTL)
		w.stepClock(s.By)
	default:
		w.steps.Go(func() { w.ask(s, r) })
	}
}

// spell applies the fault of a step for a while, to one replica or, with -1, to all.
func (w *world) spell(s step, index int, d time.Duration) {
	now := time.Now()
	w.weather.add(window{kind: s.Kind, replica: index, from: now, until: now.Add(d), p: s.P, by: s.By})
}

// pauseReplica freezes a replica, at once or when its trap strikes, which may not happen.
func (w *world) pauseReplica(s step, r *replica) {
	if r == nil {
		return
	}
	freeze := func([]ledger.Started) {
		w.weather.note(s.Kind)
		w.spell(s, s.Replica, s.For)
		r.freeze()
		w.work.Go(func() {
			time.Sleep(s.For)
			r.unfreeze()
		})
	}
	if s.N == 0 {
		freeze(nil)
		return
	}
	w.trap(s, r, anything, freeze)
	w.steps.Go(func() { // else it is postponed for ever
		time.Sleep(s.For)
		r.arm(nil)
		for r.isFrozen() {
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// stopReplica kills or drains a replica, at once or when its trap strikes, and after a while in any case. If
// none runs, its node stays down for as long.
func (w *world) stopReplica(s step, n *node, r *replica) {
	if r == nil {
		w.steps.Go(func() { n.away(s.For, nil) })
		return
	}
	w.weather.note(s.Kind)
	end, on := n.kill, anything
	if s.Kind == drains {
		end, on = n.drain, w.tooMany
	}
	if s.N == 0 {
		w.steps.Go(func() { end(s.For) })
		return
	}
	w.trap(s, r, on, func([]ledger.Started) { w.steps.Go(func() { end(s.For) }) })
	w.steps.Go(func() {
		time.Sleep(s.For)
		if r.arm(nil) {
			end(s.For)
		}
	})
}

func anything([]ledger.Started) bool { return true }

// tooMany reports whether a replica that has claimed these tasks cannot start all of them.
func (w *world) tooMany(tasks []ledger.Started) bool {
	return len(tasks) > w.plan.workers(tasks[0].Pool)
}

// trap makes a step strike a replica when it claims what the trap waits for.
func (w *world) trap(s step, r *replica, on func([]ledger.Started) bool, strike func([]ledger.Started)) {
	r.arm(&trap{on, func(tasks []ledger.Started) {
		if s.N == 2 {
			task := *tasks[0].Task // the replica owns the other one
			w.steps.Go(func() { w.insist(task) })
		}
		strike(tasks)
	}})
}

// insist requests another run of a job whose task is about to be lost with its replica, from before the others
// notice until after.
func (w *world) insist(lost jobs.Task) {
	time.Sleep(w.plan.TTL)
	for try := range 10 {
		time.Sleep(300 * time.Millisecond)
		i := slices.IndexFunc(w.nodes, func(n *node) bool { r := n.current(); return r != nil && !r.isFrozen() })
		if i < 0 || lost.Job == "" {
			continue
		}
		r := w.nodes[i].current()
		switch {
		case r == nil:
		case try%2 == 0:
			w.ask(step{Kind: runs, Name: lost.Job}, r)
		default:
			if task, err := r.s.Retry(context.Background(), lost.ID, "a user", ""); err == nil {
				w.ack(task.ID)
			}
		}
	}
}

// ask makes a call of a client.
func (w *world) ask(s step, r *replica) {
	ctx := context.Background()
	switch s.Kind {
	case enqueues:
		w.enqueue(s)
	case runs:
		if r == nil || !slices.Contains(slices.Collect(maps.Keys(r.s.Set().Jobs)), s.Name) {
			return
		}
		_, task, err := r.s.RunJob(ctx, s.Name, "a user", "")
		if err == nil {
			w.ack(task.ID)
			w.count("manual runs")
		}
	case retries:
		if id := w.some(true); r != nil && id != "" {
			if task, err := r.s.Retry(ctx, id, "a user", ""); err == nil {
				w.ack(task.ID)
				w.count("manual retries")
			}
		}
	case cancels:
		id, d := w.some(false), keyed(w.plan.Seed, "update", int(s.At))
		if id != "" && d.chance(0.5) {
			at := w.clock().Add(d.between(-time.Second, 3*time.Second))
			if _, err := w.admin.UpdateTask(ctx, id, wire.TaskChange{RunAt: &at, Priority: new(d.IntN(5) - 2)}); err == nil {
				w.count("updates")
			}
		} else if id != "" {
			w.mu.Lock()
			w.unwanted[id] = true
			w.mu.Unlock()
			if _, err := w.admin.Cancel(ctx, id, "a user"); err == nil {
				w.count("cancels")
			}
		}
	case runsAt, backfills:
		if r != nil {
			w.order(s, r)
		}
	case cancelsOrder:
		w.order(s, nil)
	case suspends:
		yes := true
		if w.admin.SuspendJob(ctx, s.Name, "a user", &yes) == nil {
			time.Sleep(s.For)
			_ = w.admin.SuspendJob(ctx, s.Name, "", nil)
		}
	case suspended:
		yes := true
		_, _ = w.admin.SuspendJobs(ctx, []string{s.Name}, "a user", ledger.Suspension{Suspended: &yes, Until: w.clock().Add(s.For)})
	case skips:
		_ = w.admin.SkipNext(ctx, s.Name, "a user", s.N)
	case pausesAll:
		p := ledger.Pause{By: "a user"}
		if s.N > 0 {
			p.Until = w.clock().Add(s.For)
		}
		if _, err := w.admin.PauseAll(ctx, p); err == nil && s.N == 0 {
			time.Sleep(s.For)
			_, _ = w.admin.ResumeAll(ctx)
		}
	case pausesPool:
		yes := true
		if w.admin.PausePool(ctx, s.Name, "a user", &yes) == nil {
			time.Sleep(s.For)
			_ = w.admin.PausePool(ctx, s.Name, "", nil)
		}
	case resumesPool:
		w.resumePaused()
	case limitsPool:
		if w.admin.LimitPool(ctx, s.Name, "a user", s.Limits) == nil {
			w.count("limits")
			if s.Limits.PerKey != nil || s.Limits.PerKind != nil {
				w.count("limits by key or kind")
			}
			time.Sleep(s.For)
			_ = w.admin.LimitPool(ctx, s.Name, "", nil)
		}
	}
}

func (w *world) ack(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[id] = true
}

// some is the id of a task that has ended, or has not.
func (w *world) some(ended bool) (id string) {
	w.db.Look(func(rows memstore.Rows) {
		ids := slices.Sorted(maps.Keys(rows.Tasks))
		if ended {
			ids = slices.Sorted(maps.Keys(rows.Done))
		}
		if len(ids) > 0 {
			id = ids[len(ids)/2]
		}
	})
	return id
}

// enqueue adds tasks, and asks again for those with a key until they are acknowledged.
func (w *world) enqueue(s step) {
	for i := range s.N {
		d := keyed(w.plan.Seed, fmt.Sprint(s.At), i)
		task := jobs.NewTask{Pool: s.Name, Payload: map[string]int{"i": i}, Priority: d.IntN(3)}
		if d.chance(0.2) {
			task.RunAt = w.clock().Add(d.between(0, 5*time.Second))
		}
		if d.chance(s.P) {
			task.IdempotencyKey = fmt.Sprintf("%v/%s/%d", s.At, s.Name, i)
		}
		task.Key, task.Kind = taskKey(d), taskKind(d)
		drawExpiry(d, w.clock(), &task)
		for try := 0; ; try++ {
			got, err := w.app.Enqueue(context.Background(), task)
			if err == nil {
				w.ack(got[0].Task.ID)
				w.known(task.IdempotencyKey, got[0].Task.ID)
				w.count("tasks")
				break
			}
			if task.IdempotencyKey == "" || try > 30 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func (w *world) known(key, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, known := w.keys[key]; key != "" && known && was != id {
		w.violate(id, "idempotency key %s made the tasks %s and %s", key, was, id)
	}
	w.keys[key] = id
}
