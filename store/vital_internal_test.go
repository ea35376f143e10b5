package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Whatever work has taken all other connections: a session and its attempts are renewed.
func TestNoWorkHoldsUpABeat(t *testing.T) {
	t.Run("mysql", func(t *testing.T) { beatsBeside(t, migrated(t, "mysql", servers.MySQL(t), Options{MaxConns: 3})) })
	t.Run("sqlite", func(t *testing.T) {
		beatsBeside(t, migrated(t, "sqlite", filepath.Join(t.TempDir(), "store.db"), Options{}))
	})
}

func beatsBeside(t *testing.T, s *Store) {
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	pool := s.db.Pool
	for range pool.Stats().MaxOpenConnections {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Sides().Replica.Beat(ctx, session); err != nil {
		t.Error(err)
	}
	ours, err := s.Sides().Replica.Extend(ctx, session, []ledger.Extension{{TaskID: "01890000-0000-7000-8000-000000000000", Token: 1, Until: time.Now()}})
	if err != nil || len(ours) != 1 || ours[0] {
		t.Errorf("a task that is not ours was extended: %v, %v", ours, err)
	}
}

// Whatever workers do has no connection that renews replicas: their heartbeats and progress are written while all of those are taken.
func TestNoWorkerHoldsUpABeat(t *testing.T) {
	t.Run("mysql", func(t *testing.T) { workersBesideBeats(t, migrated(t, "mysql", servers.MySQL(t), Options{})) })
	t.Run("sqlite", func(t *testing.T) {
		workersBesideBeats(t, migrated(t, "sqlite", filepath.Join(t.TempDir(), "store.db"), Options{}))
	})
}

func workersBesideBeats(t *testing.T, s *Store) {
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "w", Pool: "p", Kinds: []string{""}, Owner: "me", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if s.vital == s.db.Pool {
		t.Fatal("heartbeats have no connections of their own")
	}
	for range s.vital.Stats().MaxOpenConnections {
		conn, err := s.vital.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, _, err := s.Sides().Replica.BeatWorker(ctx, session, "me"); err != nil {
		t.Error(err)
	}
	ours, err := s.Sides().Replica.ReportFor(ctx, session, ledger.Progress{TaskID: "01890000-0000-7000-8000-000000000000", Token: 1, Done: 0.5})
	if err != nil || ours {
		t.Errorf("a task that is not the worker's has a progress: %v, %v", ours, err)
	}
}

// A connection for heartbeats outlasts the time between two beats, which is longer than others wait in
// their pool; and the server leaves it open.
func TestBeatsKeepTheirConnection(t *testing.T) {
	t.Parallel() // it waits
	s := migrated(t, "mysql", servers.MySQL(t), Options{})
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	beat := func() (connection int64, patience int) {
		t.Helper()
		if _, err := s.Sides().Replica.Beat(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		err := s.keep(t.Context(), "test", func(t *tx) error {
			_, err := t.One("SELECT CONNECTION_ID(), @@wait_timeout", nil, &connection, &patience)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return connection, patience
	}
	first, patience := beat()
	if time.Duration(patience)*time.Second <= vitalIdle {
		t.Errorf("the server ends it after %d s, and the pool after %v", patience, vitalIdle)
	}
	time.Sleep(7 * time.Second) // a pool looks for connections to close every 3 s
	if again, _ := beat(); again != first {
		t.Errorf("the next beat came by connection %d, the first by %d", again, first)
	}
}
