package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A replica of a version that keeps locks in another way (driver.Protocol) is refused, whatever its lock service is, and so is
// one of the versions that had no number. The error names both.
func TestOtherLockProtocolsAreRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		lk   scheduler.Locks
		name string
	}{
		"the store's own database": {nil, scheduler.StoreLocks},
		"a lock service":           {locker(t, memlock.New()), "redis 127.0.0.1:6379"},
	} {
		for _, theirs := range []string{c.name, fmt.Sprintf("%s, lock protocol %d", c.name, driver.Protocol-1)} {
			t.Run(what+": "+theirs, func(t *testing.T) {
				t.Parallel()
				st := sqlite(t).open(t)
				session, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "other", Host: "elsewhere", LockService: theirs, TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				keepBeating(t, st, session)
				s, err := scheduler.New(st, c.lk, jobs.Set{}, scheduler.Options{ID: "this", LockService: c.name, SessionTTL: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that is not refused works until then
				defer cancel()
				want := fmt.Sprintf("live replica \"other\" uses %s, this one %s, lock protocol %d", theirs, c.name, driver.Protocol)
				if err := s.Run(ctx); !errors.Is(err, ledger.ErrLockService) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			})
		}
	}
}

// keepBeating renews a session until the end of the test.
func keepBeating(t *testing.T, st *store.Store, session string) {
	t.Helper()
	beating, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for beating.Err() == nil {
			if _, err := st.Sides().Replica.Beat(beating, session); err != nil && beating.Err() == nil {
				t.Error(err)
			}
			select {
			case <-beating.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { stop(); <-stopped })
}
