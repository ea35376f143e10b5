package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// drawNotify has some jobs and pools tell of their events, and now and then stops what tells. The newer configuration may tell of others.
func (p *plan) drawNotify(d draw) {
	if !d.chance(0.4) {
		return
	}
	ofJob := func(d draw) []jobs.Event {
		return pick(d, nil, []jobs.Event{jobs.EventStarted}, []jobs.Event{jobs.EventSucceeded}, []jobs.Event{jobs.EventStarted, jobs.EventSucceeded, jobs.EventFailed, jobs.EventLost},
			[]jobs.Event{jobs.EventLate, jobs.EventSuspended, jobs.EventStarted}, []jobs.Event{jobs.EventMissed, jobs.EventRecovered, jobs.EventSucceeded})
	}
	ofPool := func(d draw) []jobs.Event {
		return pick(d, nil, []jobs.Event{jobs.EventStarted}, []jobs.Event{jobs.EventSucceeded}, []jobs.Event{jobs.EventStarted, jobs.EventSucceeded, jobs.EventFailed}, []jobs.Event{jobs.EventLost, jobs.EventRecovered}, []jobs.Event{jobs.EventPaused})
	}
	sends := jobs.Pool{
		Workers: 2 + d.IntN(4), Timeout: 20 * time.Second, OnLost: jobs.LostRetries,
		Retries: jobs.Retries{Limit: 20, Backoff: 300 * time.Millisecond, MaxBackoff: 2 * time.Second},
	}
	for version, set := range p.versions() {
		drawn := func(name string, of func(draw) []jobs.Event) (n jobs.Notify) {
			first := 0
			if keyed(p.Seed, "other notifications of "+name, 0).chance(0.3) {
				first = version
			}
			if d := keyed(p.Seed, "notifications of "+name, first); d.chance(0.7) {
				n = jobs.Notify{On: of(d), Handler: &handler{}} // each process has its own
			}
			return n
		}
		for name, j := range set {
			j.Notify = drawn("job "+name, ofJob)
			set[name] = j
		}
		pools := p.pools(version)
		for name, pool := range pools {
			pool.Notify = drawn("pool "+name, ofPool)
			pools[name] = pool
		}
		pools[naming.NotificationsPool] = sends
	}
	if d.chance(0.2) {
		p.Steps = append(p.Steps, step{At: d.between(0, p.Length).Truncate(time.Millisecond), Kind: pausesPool, Name: naming.NotificationsPool, For: d.between(time.Second, 10*time.Second)})
	}
}

// told is the notification that a task of the pool of notifications sends.
func told(t jobs.Task) (n jobs.Notification) {
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		panic(err) // a replica wrote it
	}
	return n
}

// sending is how an attempt to send a notification goes: receivers refuse some, and take others though the replica has been told to stop.
func sending(p *plan, t jobs.Task) (b behaviour) {
	n := told(t)
	d := keyed(p.Seed, fmt.Sprintf("%s of %s%s@%v", n.Event, n.Job, n.Pool, n.ScheduledAt), t.Attempt)
	switch d.IntN(6) {
	case 0, 1, 2: // at once
	case 3, 4:
		b.takes = d.between(time.Millisecond, 300*time.Millisecond)
	default:
		b.takes = d.between(300*time.Millisecond, 3*time.Second)
	}
	b.ignores = d.chance(0.2)
	if d.chance(0.2) {
		b.end = pick(d, "fail", "panic", "retry-after")
	}
	return b
}

// loaded are the pools of a set as a replica has them: that of notifications has a kind for each notifier.
func loaded(set jobs.Set) map[string]jobs.Pool {
	pools := set.WithDefaults().Pools
	if pool, has := pools[naming.NotificationsPool]; has {
		pool.Kinds = set.Notifiers()
		pools[naming.NotificationsPool] = pool
	}
	return pools
}

// wants reports whether a notification is asked for.
func wants(n jobs.Notify, e jobs.Event) bool {
	named := slices.Contains([]jobs.Event{jobs.EventLate, jobs.EventStarted, jobs.EventSucceeded}, e)
	return n.Handler != nil && (n.On == nil && !named || slices.Contains(n.On, e))
}

// asked reports whether any version asks for an event of a job, or without one of a pool, and whether all versions do.
func (w *world) asked(job, pool string, e jobs.Event) (any, all bool) {
	all = true
	for version, set := range w.plan.versions() {
		n := w.plan.pools(version)[pool].Notify
		if job != "" {
			n = set[job].Notify
		}
		any, all = any || wants(n, e), all && wants(n, e)
	}
	return any, all
}
