package jobs

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// WithDefaults returns the job with its zero fields filled in.
func (j Job) WithDefaults() Job {
	j.Timezone = cmp.Or(j.Timezone, "UTC")
	j.Pool = cmp.Or(j.Pool, naming.DefaultPool)
	j.Timeout = cmp.Or(j.Timeout, 24*time.Hour)
	j.Concurrency = cmp.Or(j.Concurrency, Forbid)
	if j.Concurrency != Allow {
		j.MaxRunning = cmp.Or(j.MaxRunning, 1)
	}
	if j.Concurrency == Queue {
		j.QueueLimit = cmp.Or(j.QueueLimit, limits.Queue)
	}
	j.OnLost = cmp.Or(j.OnLost, LostFails)
	j.LostLimit = cmp.Or(j.LostLimit, limits.Losses)
	j.CatchUp.Policy = cmp.Or(j.CatchUp.Policy, CatchUpLatest)
	j.CatchUp.Window = cmp.Or(j.CatchUp.Window, 24*time.Hour)
	j.CatchUp.Limit = cmp.Or(j.CatchUp.Limit, 10)
	j.CatchUp.Grace = cmp.Or(j.CatchUp.Grace, 10*time.Second)
	j.Calendars.Otherwise = cmp.Or(j.Calendars.Otherwise, OtherwiseSkip)
	j.Retries.Limit = max(j.Retries.Limit, 0) // NoRetries is the default
	j.Retries = j.Retries.withDefaults()
	j.Locks = locksWithDefaults(j.Locks)
	j.Output = j.Output.withDefaults()
	return j
}

// WithDefaults returns the pool with its zero fields filled in.
func (p Pool) WithDefaults() Pool {
	p.Workers = cmp.Or(p.Workers, 10)
	p.Order = cmp.Or(p.Order, OrderNone)
	p.Timeout = cmp.Or(p.Timeout, 30*time.Minute)
	p.OnLost = cmp.Or(p.OnLost, LostRetries)
	p.LostLimit = cmp.Or(p.LostLimit, limits.Losses)
	p.Retries.Limit = cmp.Or(p.Retries.Limit, 10)
	p.Retries = p.Retries.withDefaults()
	p.Locks = locksWithDefaults(p.Locks)
	p.Output = p.Output.withDefaults()
	return p
}

// WithDefaults returns a copy of the set in which all jobs and pools have their zero fields filled
// in, and which has the pool "default" and, if something notifies, "notifications".
func (s Set) WithDefaults() Set {
	pools := map[string]Pool{}
	for _, name := range append(slices.Collect(maps.Keys(s.Pools)), naming.DefaultPool, naming.NotificationsPool) {
		if pool, exists := s.Pool(name); exists {
			pools[name] = pool
		}
	}
	s.Jobs, s.Pools = maps.Clone(s.Jobs), pools
	for name, job := range s.Jobs {
		s.Jobs[name] = job.WithDefaults()
	}
	return s
}

// Pool is a pool of the set with its zero fields filled in, "default" and "notifications"
// included where they exist; false if there is none.
func (s Set) Pool(name string) (Pool, bool) {
	pool, exists := s.Pools[name]
	switch name {
	case naming.DefaultPool:
		exists = true
	case naming.NotificationsPool:
		exists = exists || s.notifies()
		pool.Workers = cmp.Or(pool.Workers, 5)
		pool.Timeout = cmp.Or(pool.Timeout, time.Minute)
		pool.Retries.Limit = cmp.Or(pool.Retries.Limit, 20)
	}
	return pool.WithDefaults(), exists
}

func (r Retries) withDefaults() Retries {
	r.Backoff = cmp.Or(r.Backoff, time.Second)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, max(15*time.Minute, r.Backoff))
	return r
}
