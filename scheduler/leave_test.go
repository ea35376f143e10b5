package scheduler

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// releasesSlowly has no answer for a release of locks of tasks.
type releasesSlowly struct{ *locks.Locker }

func (l releasesSlowly) Release(ctx context.Context, leases ...*locks.Lease) error {
	for _, lease := range leases {
		if strings.HasPrefix(lease.Key(), "user/") {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return l.Locker.Release(ctx, leases...)
}

// A replica that stops sends heartbeats until the locks of its tasks are released, which may take longer than its session lasts: others
// find that it left, and not that it died.
func TestHeartbeatsUntilLocksAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocked(t)
		run := func(id string, set jobs.Set, log *slog.Logger) (stop func()) {
			var lk Locks = releasesSlowly{replicatest.LockerOf(t, s.service)}
			r, err := newOn(&memstore.Store{Database: s.db}, lk, set, Options{ID: id, SessionTTL: time.Second, DrainTimeout: time.Second, StopGrace: time.Second, Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			time.Sleep(2 * time.Second) // it has joined
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
		var said bytes.Buffer
		stopOther := run("b", jobs.Set{}, slog.New(slog.NewTextHandler(&said, nil)))
		stop := run("a", lockedPool(newKeyed(time.Second), 0, jobs.Lock{Key: "k"}), slog.New(slog.DiscardHandler))
		id := s.enqueue(nil)[0]
		s.ended(time.Minute, id)
		stop()
		time.Sleep(5 * time.Second)
		stopOther()
		if strings.Contains(said.String(), "session expired") {
			t.Errorf("the other replica found it dead:\n%s", said.String())
		}
	})
}
