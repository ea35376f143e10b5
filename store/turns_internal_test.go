package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// However many views run, and however slowly, replicas and users work: on what Open opened, and on a handle of four connections.
func TestReadersDelayNothing(t *testing.T) {
	t.Parallel()
	eachStore(t, readersDelayNobody)
	for driver, dsn := range map[string]string{
		"sqlite": "file:" + filepath.Join(t.TempDir(), "own.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate",
		"mysql":  servers.MySQL(t),
	} {
		t.Run(driver+" handle", func(t *testing.T) {
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			db.SetMaxOpenConns(4)
			s, err := New(db, Dialect(driver), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			readersDelayNobody(t, s)
		})
	}
}

// Of a handle that views share with all else they have a quarter of the connections, one at least, and four where it has no
// bound; of the next view the time runs out, until one of them ends.
func TestViewsHaveAShareOfAHandle(t *testing.T) {
	for most, want := range map[int]int{0: 4, 1: 1, 3: 1, 4: 1, 7: 1, 8: 2, 16: 4, 100: 25} {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(most)
		s, err := New(db, SQLite, Options{})
		if err != nil {
			t.Fatal(err)
		}
		enter := func(patience time.Duration) (leave func(), err error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return s.share.enter(ctx)
		}
		var leave func()
		for n := range want {
			if leave, err = enter(10 * time.Second); err != nil {
				t.Fatalf("of %d connections, view %d: %v", most, n+1, err)
			}
		}
		if _, err := enter(10 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of %d connections views have more than %d: %v", most, want, err)
		}
		leave()
		if _, err := enter(10 * time.Second); err != nil {
			t.Errorf("of %d connections, after another view: %v", most, err)
		}
	}
}

func readersDelayNobody(t *testing.T, s *Store) {
	let, began := make(chan struct{}), make(chan struct{}, 20)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(let)
	for range cap(began) {
		readers.Go(func() {
			err := s.view(ctx, "look", func(tx *tx) error {
				return tx.Query("SELECT 1", nil, func(func(...any) error) error {
					began <- struct{}{}
					<-let
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	soon, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	session, err := s.Sides().Replica.Join(soon, ledger.Member{Replica: "r", LockService: "x"})
	if err == nil {
		_, err = s.Sides().Replica.Load(soon, session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}}})
	}
	if err == nil {
		_, err = s.Sides().Replica.Beat(soon, session)
	}
	if err == nil {
		_, err = s.Sides().Replica.Peers(soon)
	}
	if err == nil {
		var made []jobs.Enqueued
		if made, err = s.Enqueue(soon, jobs.NewTask{Pool: "p"}); err == nil {
			_, err = s.Sides().Replica.TaskRow(soon, made[0].Task.ID)
		}
	}
	if err == nil {
		_, err = s.Sides().Replica.Pools(soon)
	}
	if err == nil {
		_, err = s.Sides().Replica.Running(soon, session)
	}
	if err != nil {
		t.Errorf("beside readers that do not end: %v", err)
	}
	busy := func(look func(ctx context.Context) error, patience time.Duration) bool {
		ctx, over := context.WithTimeout(t.Context(), patience)
		defer over()
		return errors.Is(look(ctx), jobs.ErrUnavailable)
	}
	all := looks(s)
	await.Until(t, "readers have all places", func() bool { return busy(all["tasks"], 50*time.Millisecond) })
	var more sync.WaitGroup
	for name, look := range all {
		more.Go(func() {
			if !busy(look, time.Second) {
				t.Errorf("%s did not wait behind the other readers", name)
			}
		})
	}
	more.Wait()
}

// looks is all views.
func looks(s *Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"tasks":         func(ctx context.Context) error { _, _, err := s.Tasks(ctx, wire.TaskFilter{}); return err },
		"task":          func(ctx context.Context) error { _, _, err := s.Task(ctx, "none"); return err },
		"triggers":      func(ctx context.Context) error { _, _, err := s.Triggers(ctx, wire.TriggerFilter{}); return err },
		"output":        func(ctx context.Context) error { _, err := s.Sides().API.Output(ctx, "none", 0); return err },
		"jobs":          func(ctx context.Context) error { _, err := s.Sides().API.Jobs(ctx); return err },
		"job names":     func(ctx context.Context) error { _, err := s.Sides().API.JobNames(ctx, "", "", true, 1); return err },
		"job standings": func(ctx context.Context) error { _, err := s.Sides().API.JobStandings(ctx); return err },
		"pools":         func(ctx context.Context) error { _, err := s.Sides().API.Pools(ctx); return err },
		"replicas":      func(ctx context.Context) error { _, err := s.Sides().API.Replicas(ctx); return err },
		"next due":      func(ctx context.Context) error { _, err := s.Sides().API.NextDue(ctx, 1); return err },
		"overview":      func(ctx context.Context) error { _, err := s.Sides().API.Overview(ctx, 1); return err },
		"audit": func(ctx context.Context) error {
			_, _, err := s.Sides().Audit.AuditEntries(ctx, wire.Page{})
			return err
		},
	}
}
