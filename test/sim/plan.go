package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// plan has all choices of a seed. The order of goroutines is not among them.
type plan struct {
	Seed        uint64
	Start       time.Duration // of the first replica, after the beginning of 2000, with which the bubble's clock starts
	Zone        timeZone      // whose clock may jump near the run
	Replicas    int
	TTL         time.Duration // of sessions and of locks
	NoLocks     bool          // the store's rows are the guards
	WhenDown    scheduler.WhenDown
	Drain       time.Duration // drain timeout
	Slow        bool          // tasks that must not be lost take seconds, if there is room beside them
	SameIDs     bool          // a replica that is started again keeps its id
	Jobs        map[string]job
	Pools       map[string]jobs.Pool
	Edited      map[string]job       // the jobs of the newer configuration; nil: there is none
	EditedPools map[string]jobs.Pool // its pools
	Steps       []step
	Length      time.Duration // then all faults are healed

	mistake memstore.Mistake // of the store, in tests of the judge
	misread func(*jobs.Set)  // how replicas take their configurations, in tests of the judge; nil: as they are written
}

// job is a job with its due times.
type job struct {
	jobs.Job
	Times times

	Closed *closed // by its calendar, if it has one
	ICS    string  // which is this
	Kept   string  // another one that it is kept to, beside one that it leaves out; "": none
}

// step is a fault of replicas, or a call.
type step struct {
	At      time.Duration // after the first replica's start
	Kind    string
	Replica int // -1: all, or a client
	For     time.Duration
	By      time.Duration
	P       float64
	Name    string
	N       int
	Limits  *wire.PoolLimits
}

func newPlan(seed uint64) *plan {
	d := newDraw(seed, "plan")
	p := &plan{
		Seed: seed, Replicas: pick(d, 1, 2, 2, 2, 3, 3, 3, 4), TTL: pick(d, 1500*time.Millisecond, 2*time.Second, 3*time.Second),
		NoLocks: d.chance(0.25), WhenDown: pick(d, scheduler.DownStore, scheduler.DownStore, scheduler.DownWait),
		Drain: pick(d, time.Second, 5*time.Second, 15*time.Second), Slow: d.chance(0.15), SameIDs: d.chance(0.3), Jobs: map[string]job{}, Pools: map[string]jobs.Pool{},
	}
	p.Start = d.between(0, 22*time.Hour).Truncate(time.Millisecond)
	p.Length = d.between(8*time.Second, 16*time.Second)
	p.drawDay(newDraw(seed, "day"))
	p.drawPools(d)
	for i := range 2 + d.IntN(4) {
		p.Jobs[fmt.Sprintf("j%d", i)] = p.drawJob(d)
	}
	if d.chance(0.3) {
		p.edit(d)
	}
	p.drawFaults(d)
	p.drawWork(d)
	p.drawSchedules()
	p.drawCalendars(newDraw(seed, "calendars"))
	p.drawDelays()
	p.drawBounds()
	p.drawKeys(newDraw(seed, "keys"))
	p.drawRates(newDraw(seed, "rates"))
	p.drawTaskKeys(newDraw(seed, "task keys"))
	p.drawTaskKinds(newDraw(seed, "task kinds"))
	p.drawSlots(newDraw(seed, "slots"))
	p.drawPoolLabels(newDraw(seed, "pool labels"))
	p.drawSuspendAfter(newDraw(seed, "suspend after"))
	p.drawPauseOn(newDraw(seed, "pause on"))
	p.drawPriorities()
	p.drawRetriesOn(newDraw(seed, "retries on"))
	p.drawReplaces(newDraw(seed, "replaces"))
	p.drawExpectations(newDraw(seed, "expectations"))
	p.drawPoolEdits(newDraw(seed, "pool edits"))
	p.drawDefinitions(newDraw(seed, "definitions"))
	p.drawActivations(newDraw(seed, "activations"))
	p.drawOrders(newDraw(seed, "orders"))
	p.drawNotify(newDraw(seed, "notify"))
	slices.SortStableFunc(p.Steps, func(a, b step) int { return int(a.At - b.At) })
	return p
}

func (p *plan) drawPools(d draw) {
	p.Pools["default"] = jobs.Pool{Workers: 1 + d.IntN(8)}
	for i := range 1 + d.IntN(2) {
		pool := jobs.Pool{
			Workers: 1 + d.IntN(5), OnLost: pick(d, jobs.LostRetries, jobs.LostRetries, jobs.LostFails), Timeout: 20 * time.Second,
			Retries: jobs.Retries{Limit: cmp.Or(d.IntN(4), jobs.NoRetries), Backoff: d.between(200*time.Millisecond, 2*time.Second).Truncate(time.Millisecond), MaxBackoff: 4 * time.Second},
		}
		if d.chance(0.4) {
			pool.MaxRunning = 1 + d.IntN(3)
		}
		p.Pools[fmt.Sprintf("p%d", i)] = pool
	}
}

func (p *plan) drawJob(d draw) job {
	var ts times
	// Where in the day the run lies is known, so that what is due once a day falls into it.
	mid := p.began().Add(d.between(5*time.Second, p.Length+2*time.Minute))
	for range pick(d, 1, 1, 1, 2) {
		switch d.IntN(10) {
		case 0, 1, 2:
			ts = append(ts, every(pick(d, 1*time.Second, 2*time.Second, 3*time.Second, 5*time.Second)))
		case 3, 4, 5:
			ts = append(ts, every(pick(d, 7*time.Second, 10*time.Second, 15*time.Second, 30*time.Second)))
		case 6:
			ts = append(ts, every(pick(d, time.Minute, 90*time.Second, 2*time.Minute, 10*time.Minute, time.Hour)))
		case 7, 8:
			ts = append(ts, hourly(mid.Minute(), mid.Second()))
		default:
			ts = append(ts, daily(mid.Hour(), mid.Minute()))
		}
	}
	quick := ts.count(time.Unix(0, 0), time.Unix(60, 0)) > 6
	j := jobs.Job{
		Schedules:   ts.specs(),
		Concurrency: pick(d, jobs.Forbid, jobs.Forbid, jobs.Allow),
		OnLost:      pick(d, jobs.LostFails, jobs.LostFails, jobs.LostRetries),
		Timeout:     pick(d, 4*time.Second, 10*time.Second, time.Minute),
		CatchUp: jobs.CatchUp{
			Policy: pick(d, jobs.CatchUpNone, jobs.CatchUpLatest, jobs.CatchUpLatest, jobs.CatchUpAll),
			Grace:  pick(d, time.Second, 2*time.Second, 5*time.Second, 10*time.Second),
			Window: pick(d, 30*time.Second, 10*time.Minute, 24*time.Hour), Limit: 1 + d.IntN(5),
		},
		Pool: pick(d, slices.Sorted(maps.Keys(p.Pools))...),
	}
	if quick && j.CatchUp.Policy == jobs.CatchUpAll {
		j.CatchUp.Policy = jobs.CatchUpLatest // late due times would never end
	}
	if d.chance(0.35) {
		j.Retries = jobs.Retries{Limit: 1 + d.IntN(2), Backoff: d.between(200*time.Millisecond, 2*time.Second).Truncate(time.Millisecond), MaxBackoff: 3 * time.Second}
	}
	if d.chance(0.2) {
		j.RunsOn = zoneA
	}
	return p.limited(job{Job: j, Times: ts})
}

// limited is a job that does not enqueue more than its pool can do: otherwise the run would not come to rest.
func (p *plan) limited(j job) job {
	pool := p.Pools[j.Pool]
	if j.Times.count(time.Unix(0, 0), time.Unix(60, 0)) > 6 && (pool.MaxRunning > 0 || pool.Workers < 4) {
		j.Concurrency = jobs.Forbid
	}
	return j
}

// drawPoolLabels has the tasks of some pools run in one zone alone. Where there are two configurations no replica of the zone might have the one that governs.
func (p *plan) drawPoolLabels(d draw) {
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if pool := p.Pools[name]; d.chance(0.15) && p.Edited == nil {
			pool.RunsOn = zoneA
			p.Pools[name] = pool
		}
	}
}

// edit makes a newer configuration: some jobs stay, some change, one may go, one may come.
func (p *plan) edit(d draw) {
	p.Edited = map[string]job{}
	for _, name := range slices.Sorted(maps.Keys(p.Jobs)) {
		j := p.Jobs[name]
		switch d.IntN(4) {
		case 0:
			fresh := p.drawJob(d)
			fresh.Concurrency = j.Concurrency
			j = p.limited(fresh)
		case 1:
			j.Timeout += time.Second
		case 2:
			if d.chance(0.3) {
				continue
			}
		}
		p.Edited[name] = j
	}
	if d.chance(0.5) {
		p.Edited["new"] = p.drawJob(d)
	}
	for _, set := range p.versions() { // else no replica of a zone might have the version that governs
		for name, j := range set {
			j.RunsOn = nil
			set[name] = j
		}
	}
}

// slow reports whether a task takes seconds: one of a job that must not be lost, if there is room beside it.
func (p *plan) slow(t jobs.Task) bool {
	j, pool := p.Jobs[t.Job], p.Pools[t.Pool]
	return p.Slow && j.Concurrency == jobs.Forbid && j.OnLost == jobs.LostFails && pool.MaxRunning == 0 && pool.Rate == jobs.Rate{} && pool.Workers > 2
}

// configuration is the set of a version, 0 or 1, whose handlers are h.
func (p *plan) configuration(version int, h jobs.Handler) jobs.Set {
	set := jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{}, Calendars: map[string]jobs.Calendar{}}
	for name, j := range p.versions()[version] {
		j.Handler = h
		if j.Notify.Handler != nil {
			j.Notify.Handler = h
		}
		set.Jobs[name] = withCalendar(&set, name, j)
	}
	for name, pool := range p.pools(version) {
		if pool.Notify.Handler != nil {
			pool.Notify.Handler = h
		}
		if name != naming.NotificationsPool {
			pool.Handler, pool.Kinds = h, map[string]jobs.Handler{limitedKind: h}
		}
		set.Pools[name] = pool
	}
	return set
}

// read is the configuration of a version as replicas take it.
func (p *plan) read(version int, h jobs.Handler) jobs.Set {
	set := p.configuration(version, h)
	if p.misread != nil {
		p.misread(&set)
	}
	return set
}

func (p *plan) versions() []map[string]job {
	if p.Edited == nil {
		return []map[string]job{p.Jobs}
	}
	return []map[string]job{p.Jobs, p.Edited}
}

// String is the plan as text.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d replicas, ttl %v, no locks %v, when down %s, drain %v, slow %v, start %v, %v, healed after %v\n",
		p.Seed, p.Replicas, p.TTL, p.NoLocks, p.WhenDown, p.Drain, p.Slow, p.Start, p.began(), p.Length)
	for version, set := range p.versions() {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			j := set[name]
			fmt.Fprintf(&b, "  %d %s: %v in %q from %v until %v, spread %v, jitter %v, pool %s, %s of %d, queue limit %d, suspend after %d, on lost %s, timeout %v, catch up %+v, retries %+v, runs on %v, expect %v, priority %d, notify %v %v\n",
				version, name, j.Times, j.Timezone, j.StartsAt, j.EndsAt, j.Spread, j.Jitter, j.Pool, j.Concurrency, j.MaxRunning, j.QueueLimit, j.SuspendAfter, j.OnLost, j.Timeout, j.CatchUp, j.Retries, j.RunsOn, j.Expect, j.Priority, j.Notify.Handler != nil, j.Notify.On)
		}
	}
	for version := range p.versions() {
		pools := p.pools(version)
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			pool := pools[name]
			fmt.Fprintf(&b, "  %d pool %s: workers %d, max running %d, rate %v, burst %d, on lost %s, retries %+v, pause on %v, notify %v %v\n",
				version, name, pool.Workers, pool.MaxRunning, pool.Rate, pool.Burst, pool.OnLost, pool.Retries, pool.PauseOn, pool.Notify.Handler != nil, pool.Notify.On)
		}
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %v %s replica %d for %v by %v p %.2f %s %d\n", s.At, s.Kind, s.Replica, s.For, s.By, s.P, s.Name, s.N)
	}
	return b.String()
}
