package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/work"
)

// Locks is what a replica needs of the lock service; *locks.Locker is one. What wraps one passes the context on: it allows
// the keys that start with "sys/".
type Locks interface {
	TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error)
	Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error)
	Release(ctx context.Context, leases ...*locks.Lease) error
	Caps() locks.Caps
	State() locks.State
}

// noticesOf is what replicas tell each other of new tasks by: the first of their lock services that has notices; nil: none.
func noticesOf(services ...Locks) work.Notices {
	for _, s := range services {
		if n, has := s.(work.Notices); has && !nilcheck.IsNil(s) && s.Caps().Notices {
			return n
		}
	}
	return nil
}

// StoreLocks is the LockService of replicas whose guards are rows of the store's own database.
const StoreLocks = "the store's own database"

// storeTables are the backends of JobLocks that belong to StoreLocks: the tables of locks in the store's own database.
var storeTables = map[string]bool{"sqlite": true, "mysql-lease": true}

// lockService is the default of Options.LockService. keys are the locks of jobs, if they were given; set is the name of the
// set, which is the namespace of those in the store's own database.
func lockService(lk, keys Locks, set string) string {
	if lk != nil {
		return nameOf(lk.Caps())
	}
	name := StoreLocks
	if !nilcheck.IsNil(keys) && !storeTables[keys.Caps().Name] {
		name += ", with locks of jobs in " + nameOf(keys.Caps())
	}
	if set != "" {
		name += ", namespace " + set
	}
	return name
}

// nameOf is a backend, with this process where it excludes within one process only.
func nameOf(caps locks.Caps) string {
	if !caps.SingleProc {
		return caps.Name
	}
	self := process.Self()
	return fmt.Sprintf("%s of process %d, started at %d, machine %s", caps.Name, self.PID, self.Start, cmp.Or(self.Boot, hostname()))
}

// hostname is empty where it is not known.
func hostname() string {
	host, _ := os.Hostname()
	return host
}

// Fingerprint is what the replicas of a store compare at the start: an Options.LockService, and the edition of what the
// backends of this module keep there.
func Fingerprint(lockService string) string {
	return fmt.Sprintf("%s, lock protocol %d", lockService, driver.Protocol)
}

// jobLocks is the lock service of the locks of jobs and pools; nil if there is none, and p has no locks.
func jobLocks(p *plan.Plan, given, lk Locks) (Locks, error) {
	service := lk
	if !nilcheck.IsNil(given) {
		service = given
	}
	if !p.HasLocks() {
		return service, nil
	}
	if service == nil {
		return nil, fmt.Errorf("scheduler: %w", &jobs.FieldError{Path: p.WithLocks() + ".locks",
			Problem: "there is no lock service for them; give New a *locks.Locker, or set Options.JobLocks"})
	}
	if wrong := p.CheckLocks(service.Caps()); len(wrong) > 0 {
		return nil, fmt.Errorf("scheduler: %w", errors.Join(wrong...))
	}
	return service, nil
}

// checkLocks refuses options that name a lock service which the replica would not use.
func checkLocks(lk, keys Locks, named string) error {
	switch {
	case lk != nil && nilcheck.IsNil(lk):
		return fmt.Errorf("scheduler: New: the locks are a nil %T; look at the error of what made them, "+
			"or give nil itself if the store's own database is to be the lock service", lk)
	case lk == nil && named != "" && named != StoreLocks && keys == nil:
		return fmt.Errorf("scheduler: %w", &jobs.FieldError{Path: "Options.LockService",
			Problem: fmt.Sprintf("%.80q is named, and New was given no locks; give it those of that service, or leave the name empty: "+
				"the store's own database is the lock service then", named)})
	}
	return nil
}
