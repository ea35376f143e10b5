package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// attentive is a dialect that counts the transactions that may write, and lets others work before one of them begins,
// or the server go away.
type attentive struct {
	sqlkit.Dialect
	begins int
	before func(n int)
	away   bool
}

func (a *attentive) Begin(ctx context.Context, conn *sql.Conn) error {
	a.begins++
	if a.before != nil {
		a.before(a.begins)
	}
	if a.away {
		return jobs.ErrUnavailable
	}
	return a.Dialect.Begin(ctx, conn)
}

// orphans is a store with n running tasks of a dead session.
func orphans(t *testing.T, file string, n int) *Store {
	t.Helper()
	s := migrated(t, "sqlite", file, Options{})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}))
	_, err := s.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "p"}}, n)...)
	check(err)
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "dead", LockService: "x"})
	check(err)
	got, err := s.Sides().Replica.Claim(t.Context(), ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "dead", Pools: map[string]ledger.Share{"p": {Hash: (jobs.Pool{}).Hash(), Room: n}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
		},
		Pool: "p",
		ID:   uuid.NewString(),
		Now:  func(now time.Time) (time.Time, error) { return now, nil },
	})
	check(err)
	if len(got.Tasks) != n {
		t.Fatalf("claimed %d", len(got.Tasks))
	}
	check(s.Sides().Replica.Leave(t.Context(), session))
	return s
}

// A database that refuses everything gets a fixed number of tries and not one for each task; one that is unreachable gets one.
func TestReapingEndsWhereNothingIsTaken(t *testing.T) {
	s := orphans(t, filepath.Join(t.TempDir(), "a.db"), 200)
	a := &attentive{Dialect: s.db.Dialect}
	s.db.Dialect = a
	if err := s.sure(t.Context(), "test", func(t *tx) error { _, err := t.Exec("ALTER TABLE {attempts} RENAME TO elsewhere"); return err }); err != nil {
		t.Fatal(err)
	}
	a.begins = 0
	if reaped, err := s.Sides().Replica.Reap(t.Context(), 500); err == nil || errors.Is(err, jobs.ErrUnavailable) || len(reaped) > 0 || a.begins != refusedForAll {
		t.Errorf("reaped %d in %d tries, want %d tries: %v", len(reaped), a.begins, refusedForAll, err)
	}
	a.begins, a.away = 0, true
	if reaped, err := s.Sides().Replica.Reap(t.Context(), 500); !errors.Is(err, jobs.ErrUnavailable) || len(reaped) > 0 || a.begins != 1 {
		t.Errorf("reaped %d in %d tries while the database was away: %v", len(reaped), a.begins, err)
	}
}

// What another replica has reaped meanwhile is not reaped again, whether or not the answer to that is lost.
func TestWhatAnotherReaped(t *testing.T) {
	for _, lose := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "a.db")
		other, s := orphans(t, file, 3), migrated(t, "sqlite", file, Options{})
		a := &attentive{Dialect: s.db.Dialect, before: func(n int) {
			if n > 1 {
				return
			}
			if reaped, err := other.Sides().Replica.Reap(t.Context(), 9); err != nil || len(reaped) != 3 {
				t.Errorf("the other one reaped %d: %v", len(reaped), err)
			}
		}}
		s.db.Dialect = &lostCommit{Dialect: a, lose: lose}
		if reaped, err := s.Sides().Replica.Reap(t.Context(), 9); err != nil || len(reaped) != 0 || a.begins == 0 {
			t.Errorf("reaped %+v, %v", reaped, err)
		}
	}
}

// What another replica has made ready meanwhile is ready.
func TestWhatAnotherMadeReady(t *testing.T) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"mysql":  func(t *testing.T) string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			at := dsn(t)
			other, s := migrated(t, driver, at, Options{}), migrated(t, driver, at, Options{})
			same := func(now time.Time) (time.Time, error) { return now, nil }
			ready := func(s *Store) {
				t.Helper()
				if is, err := s.Sides().Replica.Ready(t.Context(), same); err != nil || !slices.Equal(is.Pools, []string{"p"}) || !is.Next.IsZero() {
					t.Errorf("ready: %q, next %v, %v", is.Pools, is.Next, err)
				}
			}
			if err := s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); err != nil {
				t.Fatal(err)
			}
			if err := s.sure(t.Context(), "test", func(t *tx) error { _, err := t.Exec("UPDATE {tasks} SET state=1, run_at=1"); return err }); err != nil {
				t.Fatal(err)
			}
			a := &attentive{Dialect: s.db.Dialect, before: func(int) { ready(other) }}
			s.db.Dialect = a
			ready(s)
			if a.begins != 1 {
				t.Errorf("%d transactions that may write", a.begins)
			}
		})
	}
}

// An event that another replica has delivered meanwhile is not delivered again.
func TestWhatAnotherWasToldOf(t *testing.T) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"mysql":  func(t *testing.T) string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			at := dsn(t)
			other, s := migrated(t, driver, at, Options{}), migrated(t, driver, at, Options{})
			if err := s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}); err != nil {
				t.Fatal(err)
			}
			err := s.sure(t.Context(), "test", func(t *tx) error {
				return t.keepEvents(time.Now(), []ledger.Event{{Notification: jobs.Notification{Pool: "p", Event: jobs.EventFailed}}, {Notification: jobs.Notification{Pool: "p", Event: jobs.EventLost}}})
			})
			if err != nil {
				t.Fatal(err)
			}
			tell := func(s *Store) (ledger.Notified, error) {
				return s.Sides().Replica.Notify(t.Context(), ledger.Notify{Limit: 9, Route: func(_ time.Time, e ledger.Event) (r ledger.Route) {
					if e.Event == jobs.EventLost {
						r.Task = &jobs.NewTask{Pool: "p", IdempotencyKey: e.ID}
					}
					return r
				}})
			}
			a := &attentive{Dialect: s.db.Dialect, before: func(int) {
				if done, err := tell(other); err != nil || done.Tasks != 1 || done.Dropped != 1 {
					t.Errorf("the other one: %+v, %v", done, err)
				}
			}}
			s.db.Dialect = a
			if done, err := tell(s); err != nil || done.Tasks != 0 || done.Dropped != 0 || a.begins != 1 {
				t.Errorf("%+v, in %d transactions: %v", done, a.begins, err)
			}
			if n := text(t, s, "SELECT COUNT(*) FROM {tasks}"); n != "1" {
				t.Errorf("%s tasks", n)
			}
		})
	}
}

// A task that is swept while its retry is written does not exist any more. On SQLite no other process sweeps meanwhile.
func TestWhatIsSweptIsNotRetried(t *testing.T) {
	at := servers.MySQL(t)
	other, s := migrated(t, "mysql", at, Options{}), migrated(t, "mysql", at, Options{})
	write := func(text string) {
		t.Helper()
		if err := other.sure(t.Context(), "test", func(t *tx) error { _, err := t.Exec(text); return err }); err != nil {
			t.Error(err)
		}
	}
	write(ended9)
	s.db.Dialect = &interrupted{Dialect: s.db.Dialect, at: 2, do: func() { write(`DELETE FROM {done}`) }} // after the task was read
	if task, err := s.Retry(t.Context(), "t9", "", true); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("%+v, %v", task, err)
	}
	if n := text(t, s, `SELECT COUNT(*) FROM {done}`) + text(t, s, `SELECT COUNT(*) FROM {tasks}`); n != "00" {
		t.Errorf("%s rows", n)
	}
}

// A replica that has nothing to do holds up no writer, however often it polls.
func TestAnIdleReplicaWritesNothing(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5}},
	}
	if _, err := s.Sides().Replica.Load(t.Context(), session, d); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p", RunAt: time.Now().Add(time.Hour)}); err != nil { // what waits is none
		t.Fatal(err)
	}
	err = s.sure(t.Context(), "test", func(t *tx) error {
		return t.keepEvents(time.Now(), []ledger.Event{{Notification: jobs.Notification{Pool: "p", Event: jobs.EventFailed}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	older, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "older", LockService: "x"}) // it has loaded nothing
	if err != nil {
		t.Fatal(err)
	}
	a := &attentive{Dialect: s.db.Dialect}
	s.db.Dialect = a
	same := func(now time.Time) (time.Time, error) { return now, nil }
	for name, do := range map[string]func() error{
		"ready":  func() error { _, err := s.Sides().Replica.Ready(t.Context(), same); return err },
		"reap":   func() error { _, err := s.Sides().Replica.Reap(t.Context(), 9); return err },
		"look":   func() error { _, err := s.Sides().Replica.Look(t.Context(), "p", ledger.Look{Most: 9}); return err },
		"own":    func() error { _, err := s.Sides().Replica.Running(t.Context(), session); return err },
		"assert": func() error { _, err := s.Sides().Replica.Assert(t.Context(), session, d); return err },
		"assert what does not govern": func() error {
			got, err := s.Sides().Replica.Assert(t.Context(), older, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "2", MaxAttempts: 5}}})
			if got.Governs || len(got.Pools) != 1 || len(got.Jobs) != 1 {
				t.Errorf("assert what does not govern: %+v", got)
			}
			return err
		},
		"upcoming": func() error { _, err := s.Sides().Replica.Upcoming(t.Context(), nil); return err },
		"claim": func() error {
			_, err := s.Sides().Replica.Claim(t.Context(), ledger.Claim{
				Admission: ledger.Admission{Session: session, Pools: map[string]ledger.Share{"p": {Hash: "1"}}},
				Pool:      "p",
			})
			return err
		},
		"notify": func() error {
			done, err := s.Sides().Replica.Notify(t.Context(), ledger.Notify{Limit: 9, Route: func(time.Time, ledger.Event) ledger.Route { return ledger.Route{Keep: true} }})
			if done.Kept != 1 {
				t.Errorf("notify: %+v", done)
			}
			return err
		},
		"finish":  func() error { _, err := s.Sides().Replica.Finish(t.Context(), session, nil); return err },
		"extend":  func() error { _, err := s.Sides().Replica.Extend(t.Context(), session, nil); return err },
		"report":  func() error { _, err := s.Sides().Replica.Report(t.Context(), session, nil); return err },
		"enqueue": func() error { _, err := s.Enqueue(t.Context()); return err },
	} {
		a.begins = 0
		if err := do(); err != nil || a.begins > 0 {
			t.Errorf("%s: %v, in %d transactions that may write", name, err, a.begins)
		}
	}
}

// An older configuration stops being written once a newer one is loaded, whichever of its batches is next.
func TestANewerConfigurationStopsAnOlderOne(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint("before batch ", n), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			other, s := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
			join := func(replica string) string {
				t.Helper()
				session, err := other.Sides().Replica.Join(t.Context(), ledger.Member{Replica: replica, LockService: "x"})
				if err != nil {
					t.Fatal(err)
				}
				return session
			}
			definitions := func(hash string) (d ledger.Definitions) {
				d.Pools = []ledger.PoolDef{{Name: "p", Hash: hash, MaxAttempts: 5}}
				for i := range sqlkit.MaxRows + 1 {
					d.Jobs = append(d.Jobs, ledger.JobDef{Name: fmt.Sprintf("j%04d", i), Hash: hash, Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }})
				}
				return d
			}
			session := join("older")
			if _, err := other.Sides().Replica.Load(t.Context(), session, ledger.Definitions{}); err != nil {
				t.Fatal(err)
			}
			a := &attentive{Dialect: s.db.Dialect}
			a.before = func(begins int) {
				if begins == n {
					if _, err := other.Sides().Replica.Load(t.Context(), join("newer"), definitions("newer")); err != nil {
						t.Error(err)
					}
				}
			}
			s.db.Dialect = a
			got, err := s.Sides().Replica.Assert(t.Context(), session, definitions("older"))
			if err != nil || got.Governs || a.begins != n {
				t.Errorf("governs: %v, after %d batches, %v", got.Governs, a.begins, err)
			}
			want := fmt.Sprint("newer ", sqlkit.MaxRows+1)
			if d := cmp.Diff([]string{want, "newer"}, []string{
				text(t, s, "SELECT MIN(hash) || ' ' || COUNT(*) FROM {jobs} WHERE hash='newer'"), text(t, s, "SELECT hash FROM {pools} WHERE name='p'"),
			}); d != "" {
				t.Error(d)
			}
		})
	}
}

// Definitions that another replica has written meanwhile, or taken out, are not written again.
func TestWhatAnotherDefined(t *testing.T) {
	one := ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: inAnHour}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5}},
	}
	for name, c := range map[string]struct{ before, after ledger.Definitions }{
		"written": {ledger.Definitions{}, one}, "taken out": {one, ledger.Definitions{}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			other, s := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
			session, err := other.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Sides().Replica.Load(t.Context(), session, c.before); err != nil {
				t.Fatal(err)
			}
			a := &attentive{Dialect: s.db.Dialect}
			a.before = func(n int) {
				if n > 1 {
					return
				}
				if got, err := other.Sides().Replica.Assert(t.Context(), session, c.after); err != nil || !got.Governs {
					t.Errorf("the other one: %+v, %v", got, err)
				}
				for _, table := range []string{"jobs", "pools"} { // from here on no row may be written
					err := other.sure(t.Context(), "test", func(t *tx) error {
						_, err := t.Exec(`CREATE TRIGGER no_` + table + ` BEFORE INSERT ON {` + table + `} BEGIN SELECT RAISE(FAIL, 'written again'); END`)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
			s.db.Dialect = a
			if got, err := s.Sides().Replica.Assert(t.Context(), session, c.after); err != nil || !got.Governs || a.begins != 2 {
				t.Errorf("%+v, in %d transactions: %v", got, a.begins, err)
			}
		})
	}
}
