package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// Lock is a lock that a task holds while it runs.
type Lock struct {
	Name     string        // the key as it was written, with the fields of the payload filled in
	Request  locks.Request // with the key as the lock service has it, and without Meta
	Continue bool          // its loss does not end the attempt
}

// anyCancels reports whether the loss of one of these locks ends an attempt.
func anyCancels(all []jobs.Lock) bool {
	return slices.ContainsFunc(all, func(l jobs.Lock) bool { return l.OnLost != jobs.LockContinues })
}

// HasLocks reports whether a job or pool has locks.
func (p *Plan) HasLocks() bool { return p.hasLocks }

// HasLocks reports whether the job's tasks hold locks while they run.
func (j *Job) HasLocks() bool { return len(j.locks) > 0 }

// locksOf are the locks of a task as they are written, and how long it may wait for them.
func (p *Plan) locksOf(t jobs.Task) (of []jobs.Lock, wait time.Duration) {
	if t.Job != "" {
		if j, known := p.Jobs[t.Job]; known {
			return j.locks, j.lockWait
		}
	} else if pool, known := p.Pools[t.Pool]; known {
		return pool.Locks, pool.LockWait
	}
	return nil, 0
}

// Locks are those of a task that this replica can execute, none for most tasks, and how long it may wait for them; 0: without
// limit. The error says which key cannot be made of the task's payload.
func (p *Plan) Locks(t jobs.Task) (all []Lock, wait time.Duration, err error) {
	of, wait := p.locksOf(t)
	if len(of) == 0 {
		return nil, 0, nil
	}
	all = make([]Lock, 0, len(of))
	for _, l := range of {
		if l, err = l.ForPayload(t.Payload); err != nil {
			return nil, 0, err
		}
		full, err := syskeys.Full(l.Key, false)
		if err != nil {
			return nil, 0, err
		}
		lock := Lock{Name: strings.TrimPrefix(full, syskeys.User), Request: locks.Request{Key: full, Limit: l.Limit}, Continue: l.OnLost == jobs.LockContinues}
		if l.Mode == jobs.LockShared {
			lock.Request.Mode = locks.Shared
		}
		for _, other := range all {
			if other.Request.Key == full {
				return nil, 0, fmt.Errorf("key %s: two locks of the task have it; its payload must make different keys", lock.Name)
			}
		}
		all = append(all, lock)
	}
	return all, wait, nil
}

// CheckLocks returns an error for each lock that a lock service cannot hold so.
func (p *Plan) CheckLocks(c locks.Caps) (wrong []error) {
	check := func(path string, all []jobs.Lock) {
		for i, l := range all {
			switch {
			case l.Mode == jobs.LockShared && !c.Shared:
				wrong = append(wrong, &jobs.FieldError{Path: fmt.Sprintf("%s.locks[%d].mode", path, i),
					Problem: fmt.Sprintf("the lock service, %s, has no shared locks; remove mode, or choose another lock.driver or mode", c.Name)})
			case l.Limit > 1 && !c.Limit:
				wrong = append(wrong, &jobs.FieldError{Path: fmt.Sprintf("%s.locks[%d].limit", path, i),
					Problem: fmt.Sprintf("the lock service, %s, has no limits; remove limit, or choose another lock.driver or mode", c.Name)})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		check("pools."+name, p.Pools[name].Locks)
	}
	for _, name := range p.names {
		check("jobs."+name, p.Jobs[name].Locks)
	}
	return wrong
}

// WithLocks names a job or pool that has locks, as in "jobs.backup"; empty if none has.
func (p *Plan) WithLocks() string {
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if len(p.Pools[name].Locks) > 0 {
			return "pools." + name
		}
	}
	for _, name := range p.names {
		if p.Jobs[name].HasLocks() {
			return "jobs." + name
		}
	}
	return ""
}
