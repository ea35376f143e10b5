package sim

import (
	"maps"
	"slices"
	"time"
)

// The kinds of steps. Those of faults last for step.For, or are over at once.
const (
	pauses     = "pause"       // the whole replica: what it calls and starts waits until the end
	kills      = "kill"        // and it is started again after For
	drains     = "drain"       // and it is started again after For
	reloads    = "reload"      // drained, and started with the newer configuration
	outages    = "outage"      // all are stopped, for hours
	refuses    = "refuse"      // store calls fail before they have done anything
	loses      = "lose"        // store calls are done, and their answers lost
	hangs      = "hang"        // store calls are not answered in time; some are done, late
	storeDown  = "store-down"  // all of them, for all replicas
	slows      = "slow"        // store calls take up to By
	stalls     = "stall"       // transactions wait for locks in their middle, up to By
	repeats    = "repeat"      // transactions meet deadlocks
	lockBusy   = "lock-busy"   // tries find others
	lockLoses  = "lock-lose"   // tries are done, and their answers lost
	lockRefuse = "lock-refuse" // the service cannot be reached
	lockSlow   = "lock-slow"   // and is slow
	lockStop   = "lock-stop"   // the service is down, for all replicas
	lockForget = "lock-forget" // it restarts empty
	lockExpire = "lock-expire" // a session ends at the service, without notice
	wallSteps  = "wall-step"   // of one replica's wall clock
	dbSteps    = "db-step"     // of the database's clock
)

// faultKinds are those that every run of many seeds must have applied.
var faultKinds = []string{
	pauses, kills, drains, reloads, replaces, reverts, outages, refuses, loses, hangs, storeDown, slows, stalls, repeats,
	lockBusy, lockLoses, lockRefuse, lockSlow, lockStop, lockForget, lockExpire, wallSteps, dbSteps,
}

// Other steps.
const (
	enqueues   = "enqueue"
	runs       = "run"     // a job by hand
	retries    = "retry"   // an ended task
	cancels    = "cancel"  // an open task
	suspends   = "suspend" // a job, for For
	suspended  = "suspend-until"
	skips      = "skip-next" // N due times of a job
	pausesPool = "pause-pool"
	pausesAll  = "pause-all" // for For; N: it ends by itself
	limitsPool = "limit-pool"

	resumesPool = "resume-pool" // if it was paused as its attempts failed
)

func (p *plan) drawFaults(d draw) {
	at := func() time.Duration { return d.between(time.Second, p.Length).Truncate(time.Millisecond) }
	one := func() int { return d.IntN(p.Replicas) }
	some := func() int { // mostly one replica, else all
		if d.chance(0.7) {
			return one()
		}
		return -1
	}
	long := func() time.Duration {
		return d.between(100*time.Millisecond, 2*p.TTL+2*p.TTL/3).Truncate(time.Millisecond)
	}
	for range 1 + d.IntN(5) {
		s := step{At: at(), Replica: one(), For: long(), P: pick(d, 0.1, 0.5, 1)}
		s.Kind = pick(d, pauses, pauses, pauses, kills, kills, drains, refuses, storeDown, loses, loses, hangs, slows, stalls, repeats,
			lockBusy, lockLoses, lockRefuse, lockSlow, lockStop, lockForget, lockExpire, wallSteps, dbSteps, outages)
		switch s.Kind {
		case pauses:
			if d.chance(0.6) { // long enough for its session to expire
				s.For = d.between(p.TTL+p.TTL/4, 3*p.TTL).Truncate(time.Millisecond)
			}
			s.N = d.IntN(3)    // 1: right after it has claimed or decided something; 2: and a client waits for that
			if d.chance(0.3) { // a client wants one of its tasks now
				p.Steps = append(p.Steps, step{At: s.At + d.between(p.TTL, s.For+3*p.TTL), Kind: runs, Name: pick(d, slices.Sorted(maps.Keys(p.Jobs))...), Replica: one()})
			}
		case kills:
			s.N = d.IntN(3) // as of pauses
		case drains:
			if s.N = d.IntN(2); s.N == 1 { // right after it has claimed more than it can start
				for range 2 {
					burst := step{At: s.At + d.between(0, time.Second), Kind: enqueues, Name: pick(d, slices.Sorted(maps.Keys(p.Pools))...), N: 6 + d.IntN(6)}
					p.Steps = append(p.Steps, burst)
				}
			}
		case storeDown:
			s.Replica, s.P, s.For = -1, 1, d.between(p.TTL/2, 3*p.TTL).Truncate(time.Millisecond)
		case refuses, loses, hangs, slows, stalls, repeats:
			s.Replica, s.By = some(), d.between(10*time.Millisecond, pick(d, 300*time.Millisecond, 2*time.Second, 9*time.Second))
		case lockBusy, lockLoses, lockRefuse, lockSlow:
			s.Replica, s.By = some(), d.between(10*time.Millisecond, 3*time.Second)
		case lockStop, lockForget:
			s.Replica = -1
		case wallSteps:
			s.By = pick(d, -time.Hour, -5*time.Second, 5*time.Second, time.Hour)
		case dbSteps:
			s.Replica, s.By = -1, pick(d, -time.Hour, -5*time.Second, -time.Second, time.Second, 5*time.Second, time.Hour)
		case outages:
			s.Replica, s.For = -1, d.between(20*time.Second, pick(d, time.Minute, time.Hour, 12*time.Hour))
		}
		p.Steps = append(p.Steps, s)
		if s.Kind == loses && d.chance(0.5) { // rows that it does not know to be its own are released before it leaves
			p.Steps = append(p.Steps, step{At: s.At + s.For + d.between(0, p.TTL/3), Kind: drains, Replica: max(s.Replica, 0), For: time.Second})
		}
	}
	if p.Edited != nil {
		for n := range 1 + d.IntN(p.Replicas) {
			p.Steps = append(p.Steps, step{At: at(), Kind: reloads, Replica: n, For: d.between(0, 2*time.Second)})
		}
	}
}

func (p *plan) drawWork(d draw) {
	at := func() time.Duration { return d.between(0, p.Length).Truncate(time.Millisecond) }
	var pools []string
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if name != "default" || d.chance(0.3) {
			pools = append(pools, name)
		}
	}
	for range 1 + d.IntN(6) {
		p.Steps = append(p.Steps, step{At: at(), Kind: enqueues, Name: pick(d, pools...), N: 1 + d.IntN(6), P: pick(d, 0, 0.3, 1)})
	}
	all := slices.Sorted(maps.Keys(p.Jobs))
	for range d.IntN(3) {
		p.Steps = append(p.Steps, step{At: at(), Kind: runs, Name: pick(d, all...), Replica: d.IntN(p.Replicas)})
	}
	for range d.IntN(3) {
		p.Steps = append(p.Steps, step{At: at(), Kind: pick(d, cancels, retries), Replica: d.IntN(p.Replicas)})
	}
	if d.chance(0.2) {
		p.Steps = append(p.Steps, step{At: at(), Kind: pick(d, suspends, suspended), Name: pick(d, all...), For: d.between(time.Second, 10*time.Second)})
	}
	if d.chance(0.2) {
		p.Steps = append(p.Steps, step{At: at(), Kind: skips, Name: pick(d, all...), N: 1 + d.IntN(4)})
	}
	if d.chance(0.15) {
		p.Steps = append(p.Steps, step{At: at(), Kind: pausesAll, N: d.IntN(2), For: d.between(time.Second, 15*time.Second)})
	}
	if d.chance(0.2) {
		p.Steps = append(p.Steps, step{At: at(), Kind: pausesPool, Name: pick(d, slices.Sorted(maps.Keys(p.Pools))...), For: d.between(time.Second, 10*time.Second)})
	}
}
