package jobs

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// What zero fields of a Job mean.
const (
	defaultTimezone      = "UTC"
	defaultTimeout       = 24 * time.Hour
	defaultConcurrency   = Forbid
	defaultOnLost        = LostFails
	defaultCatchUpPolicy = CatchUpLatest
	defaultCatchUpWindow = 24 * time.Hour
	defaultCatchUpLimit  = 10
	defaultCatchUpGrace  = 10 * time.Second
	defaultRetries       = 0
)

// What zero fields of a Pool mean.
const (
	defaultPoolWorkers = 10
	defaultPoolTimeout = 30 * time.Minute
	defaultPoolOnLost  = LostRetries
	defaultPoolRetries = 10
)

// What zero fields of the pool "notifications" mean where that differs.
const (
	defaultNotificationWorkers = 5
	defaultNotificationTimeout = time.Minute
	defaultNotificationRetries = 20
)

// What zero fields of Retries mean, for jobs and pools.
const (
	defaultBackoff    = time.Second
	defaultMaxBackoff = 15 * time.Minute // Backoff, if that is longer
)

// WithDefaults returns the job with its zero fields filled in.
func (j Job) WithDefaults() Job {
	j.Timezone = cmp.Or(j.Timezone, defaultTimezone)
	j.Pool = cmp.Or(j.Pool, naming.DefaultPool)
	j.Timeout = cmp.Or(j.Timeout, defaultTimeout)
	j.Concurrency = cmp.Or(j.Concurrency, defaultConcurrency)
	j.OnLost = cmp.Or(j.OnLost, defaultOnLost)
	j.CatchUp.Policy = cmp.Or(j.CatchUp.Policy, defaultCatchUpPolicy)
	j.CatchUp.Window = cmp.Or(j.CatchUp.Window, defaultCatchUpWindow)
	j.CatchUp.Limit = cmp.Or(j.CatchUp.Limit, defaultCatchUpLimit)
	j.CatchUp.Grace = cmp.Or(j.CatchUp.Grace, defaultCatchUpGrace)
	j.Retries.Limit = max(cmp.Or(j.Retries.Limit, defaultRetries), 0)
	j.Retries = j.Retries.withDefaults()
	return j
}

// WithDefaults returns the pool with its zero fields filled in.
func (p Pool) WithDefaults() Pool {
	p.Workers = cmp.Or(p.Workers, defaultPoolWorkers)
	p.Timeout = cmp.Or(p.Timeout, defaultPoolTimeout)
	p.OnLost = cmp.Or(p.OnLost, defaultPoolOnLost)
	p.Retries.Limit = cmp.Or(p.Retries.Limit, defaultPoolRetries)
	p.Retries = p.Retries.withDefaults()
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
		pool.Workers = cmp.Or(pool.Workers, defaultNotificationWorkers)
		pool.Timeout = cmp.Or(pool.Timeout, defaultNotificationTimeout)
		pool.Retries.Limit = cmp.Or(pool.Retries.Limit, defaultNotificationRetries)
	}
	return pool.WithDefaults(), exists
}

func (r Retries) withDefaults() Retries {
	r.Backoff = cmp.Or(r.Backoff, defaultBackoff)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, max(defaultMaxBackoff, r.Backoff))
	return r
}
