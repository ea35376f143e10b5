package store

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Whoever has all connections that others work with: a session and the time of its attempts go on.
func TestNoWorkHoldsUpABeat(t *testing.T) {
	s := migrated(t, "mysql", servers.MySQL(t), Options{MaxConns: 3})
	session, err := s.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := s.writers.DB()
	if err != nil {
		t.Fatal(err)
	}
	for range pool.Stats().MaxOpenConnections {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Beat(ctx, session); err != nil {
		t.Error(err)
	}
	ours, err := s.Extend(ctx, session, []ledger.Extension{{TaskID: "01890000-0000-7000-8000-000000000000", Token: 1, Until: time.Now()}})
	if err != nil || len(ours) != 1 || ours[0] {
		t.Errorf("a task that is not ours was extended: %v, %v", ours, err)
	}
}

// A connection for heartbeats is the same one as long as beats come, and the server leaves it open.
func TestBeatsKeepTheirConnection(t *testing.T) {
	s := migrated(t, "mysql", servers.MySQL(t), Options{})
	number := func() (n int64) {
		t.Helper()
		err := s.keep(t.Context(), "test", func(t *tx) error {
			_, err := t.one("SELECT CONNECTION_ID()", nil, &n)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := number()
	var wait int
	err := s.keep(t.Context(), "test", func(t *tx) error { _, err := t.one("SELECT @@wait_timeout", nil, &wait); return err })
	if err != nil || time.Duration(wait)*time.Second <= vitalIdle {
		t.Errorf("the server ends it after %d s, and the pool after %v: %v", wait, vitalIdle, err)
	}
	if again := number(); again != first {
		t.Errorf("the second beat came by connection %d, the first by %d", again, first)
	}
}
