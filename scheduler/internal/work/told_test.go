package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A command that was ended since its deadline had come has failed for its lock if it was told the end of the lease, also if lease and
// session were renewed before its end was known; it is lost if it was told the end of its session.
func TestOverdueByWhatItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, err := replicatest.LockerOf(t, memlock.New()).Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		now := boottime.Awake()
		lock, session := toldEnd{now.Add(3 * time.Second), true}, toldEnd{now.Add(3 * time.Second), false}
		renewedLock, renewedSession := toldEnd{now.Add(time.Hour), true}, toldEnd{now.Add(time.Hour), false}
		time.Sleep(2500 * time.Millisecond)
		for name, c := range map[string]struct {
			told []toldEnd
			want reason.Code
		}{
			"lock":                                   {[]toldEnd{lock}, reason.LockLost},
			"session":                                {[]toldEnd{session}, reason.OutcomeUnknown},
			"lock, then both are renewed":            {[]toldEnd{lock, renewedSession, renewedLock, renewedSession}, reason.LockLost},
			"session, then both are renewed":         {[]toldEnd{session, renewedLock}, reason.OutcomeUnknown},
			"lock, then session":                     {[]toldEnd{lock, session}, reason.OutcomeUnknown},
			"session, then lock, and it is renewed":  {[]toldEnd{session, lock, renewedSession}, reason.LockLost},
			"neither has come":                       {[]toldEnd{renewedLock}, reason.OutcomeUnknown},
			"a bound that is none is not told, lock": {[]toldEnd{lock, {}}, reason.LockLost},
		} {
			a := &attempt{task: &jobs.Task{}, locks: []heldLock{{plan.Lock{Name: "a"}, leases[0], time.Second}}, bound: bound.New(now, time.Second, now)}
			a.task.Attempt, a.work.Retries = 1, jobs.Retries{Limit: 1}
			for _, one := range c.told {
				a.note(one)
			}
			if r := a.result(fmt.Errorf("%w: %w", abort.ErrLost, abort.ErrOverdue), nil, ""); r.Code != c.want {
				t.Errorf("told of %s: %+v, want %s", name, r, c.want)
			}
			if len(a.ends) > len(c.told) || len(a.ends) < 1 {
				t.Errorf("told of %s: noted %v", name, a.ends)
			}
		}
	})
}

// What is told last is the end of a lease, or of the session or the row. It is noted where an attempt must not run without a lock.
func TestWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, err := replicatest.LockerOf(t, memlock.New()).Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := fed(t)
		e := f.executor
		e.clock = membership.NewClock(0)
		e.clock.Observe(boottime.Awake(), time.Now())
		held, on := []heldLock{{plan.Lock{}, leases[0], time.Second}}, []heldLock{{plan.Lock{Continue: true}, leases[0], time.Second}}
		lease := time.Until(leases[0].Deadline())
		for name, c := range map[string]struct {
			locks  []heldLock
			mayRun time.Duration
			noted  int
			want   toldEnd
		}{
			"the lease":      {held, time.Hour, 1, toldEnd{ofLock: true, end: boottime.Awake().Add(lease)}},
			"the row":        {held, time.Second, 1, toldEnd{end: boottime.Awake().Add(time.Second)}},
			"goes on":        {on, time.Hour, 0, toldEnd{}},
			"without a lock": {nil, time.Hour, 0, toldEnd{}},
		} {
			a := &attempt{session: "another", locks: c.locks, mayRun: e.clock.Now().Add(c.mayRun)}
			a.bound = bound.New(boottime.Awake(), time.Second)
			e.tell([]*attempt{a})
			if len(a.ends) != c.noted {
				t.Errorf("%s: noted %v", name, a.ends)
				continue
			}
			if c.noted > 0 && (a.ends[0].ofLock != c.want.ofLock || (a.ends[0].end.Until()-c.want.end.Until()).Abs() > bootError) {
				t.Errorf("%s: told of %+v, want %+v", name, a.ends[0], c.want)
			}
		}
	})
}
