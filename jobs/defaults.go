package jobs

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// What zero fields of a Job mean.
const (
	DefaultTimezone      = "UTC"
	DefaultTimeout       = 24 * time.Hour
	DefaultConcurrency   = Forbid
	DefaultOnLost        = LostFails
	DefaultCatchUpPolicy = CatchUpLatest
	DefaultCatchUpWindow = 24 * time.Hour
	DefaultCatchUpLimit  = 10
	DefaultCatchUpGrace  = 10 * time.Second
	DefaultRetries       = 0
)

// What zero fields of a Pool mean.
const (
	DefaultPoolWorkers = 10
	DefaultPoolTimeout = 30 * time.Minute
	DefaultPoolOnLost  = LostRetries
	DefaultPoolRetries = 10
)

// What zero fields of the pool [NotificationsPool] mean where that differs.
const (
	DefaultNotificationWorkers = 5
	DefaultNotificationTimeout = time.Minute
	DefaultNotificationRetries = 20
)

// What zero fields of Retries mean, for jobs and pools.
const (
	DefaultBackoff    = time.Second
	DefaultMaxBackoff = 15 * time.Minute // Backoff, if that is longer
)

// WithDefaults returns the job with its zero fields filled in.
func (j Job) WithDefaults() Job {
	j.Timezone = cmp.Or(j.Timezone, DefaultTimezone)
	j.Pool = cmp.Or(j.Pool, DefaultPool)
	j.Timeout = cmp.Or(j.Timeout, DefaultTimeout)
	j.Concurrency = cmp.Or(j.Concurrency, DefaultConcurrency)
	j.OnLost = cmp.Or(j.OnLost, DefaultOnLost)
	j.CatchUp.Policy = cmp.Or(j.CatchUp.Policy, DefaultCatchUpPolicy)
	j.CatchUp.Window = cmp.Or(j.CatchUp.Window, DefaultCatchUpWindow)
	j.CatchUp.Limit = cmp.Or(j.CatchUp.Limit, DefaultCatchUpLimit)
	j.CatchUp.Grace = cmp.Or(j.CatchUp.Grace, DefaultCatchUpGrace)
	j.Retries = j.Retries.withDefaults()
	return j
}

// WithDefaults returns the pool with its zero fields filled in; Retries is not nil.
func (p Pool) WithDefaults() Pool {
	p.Workers = cmp.Or(p.Workers, DefaultPoolWorkers)
	p.Timeout = cmp.Or(p.Timeout, DefaultPoolTimeout)
	p.OnLost = cmp.Or(p.OnLost, DefaultPoolOnLost)
	retries := Retries{Limit: DefaultPoolRetries}
	if p.Retries != nil {
		retries = *p.Retries
	}
	retries = retries.withDefaults()
	p.Retries = &retries
	return p
}

// WithDefaults returns a copy of the set in which all jobs and pools have their zero fields filled
// in, and which has the pool [DefaultPool] and, if something notifies, [NotificationsPool].
func (s Set) WithDefaults() Set {
	pools := map[string]Pool{}
	for _, name := range append(slices.Collect(maps.Keys(s.Pools)), DefaultPool, NotificationsPool) {
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

// Pool is a pool of the set with its zero fields filled in, [DefaultPool] and [NotificationsPool]
// included where they exist; false if there is none.
func (s Set) Pool(name string) (Pool, bool) {
	pool, exists := s.Pools[name]
	switch name {
	case DefaultPool:
		exists = true
	case NotificationsPool:
		exists = exists || s.notifies()
		pool.Workers = cmp.Or(pool.Workers, DefaultNotificationWorkers)
		pool.Timeout = cmp.Or(pool.Timeout, DefaultNotificationTimeout)
		if pool.Retries == nil {
			pool.Retries = &Retries{Limit: DefaultNotificationRetries}
		}
	}
	return pool.WithDefaults(), exists
}

func (r Retries) withDefaults() Retries {
	r.Backoff = cmp.Or(r.Backoff, DefaultBackoff)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, max(DefaultMaxBackoff, r.Backoff))
	return r
}
