package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// slowCommit is a dialect whose next COMMIT happens, or does not if it is undone. Its caller gets an error after meanwhile has run.
type slowCommit struct {
	sqlkit.Dialect
	undone    bool
	meanwhile func()
}

func (p *slowCommit) Commit(ctx context.Context, conn *sql.Conn) (err error) {
	meanwhile := p.meanwhile
	if meanwhile == nil {
		return p.Dialect.Commit(ctx, conn)
	}
	p.meanwhile = nil
	if p.undone {
		_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	} else if err = p.Dialect.Commit(ctx, conn); err != nil {
		return err
	}
	meanwhile()
	return sqlkit.ErrUnknownCommit
}

// A task may have been claimed, and have ended, before the COMMIT that made it is settled: it
// is not made a second time.
func TestATaskEndsBeforeItsCommitIsSettled(t *testing.T) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"mysql":  func(t *testing.T) string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			at := dsn(t)
			other, s := migrated(t, driver, at, Options{}), migrated(t, driver, at, Options{})
			slow := &slowCommit{Dialect: s.db.Dialect}
			s.db.Dialect = slow
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			session, err := other.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
			check(err)
			_, err = other.Sides().Replica.Load(t.Context(), session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}}})
			check(err)
			runs := 0
			work := func() {
				t.Helper()
				got, err := other.Sides().Replica.Claim(t.Context(), ledger.Claim{
					Admission: ledger.Admission{
						Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "1", Room: 9}},
						Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
					},
					Pool: "p",
					ID:   uuid.NewString(),
					Now:  func(now time.Time) (time.Time, error) { return now, nil },
				})
				check(err)
				for _, task := range got.Tasks {
					runs++
					_, err := other.Sides().Replica.Finish(t.Context(), session, []ledger.Result{{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed}})
					check(err)
				}
			}
			slow.meanwhile = work
			all, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
			check(err)
			slow.meanwhile = work
			retry, err := s.Retry(t.Context(), all[0].Task.ID, "me", false)
			check(err)
			work()
			if runs != 2 || text(t, s, `SELECT COUNT(*) FROM {done}`) != "2" || retry.RetryOf != all[0].Task.ID {
				t.Errorf("a task and its retry ran %d times; the retry is %+v", runs, retry)
			}
		})
	}
}

// If the COMMIT of Expire has no answer, the result is not true for a session that another replica has declared dead
// before.
func TestBuryClaimsNothingOfOthers(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	slow := &slowCommit{Dialect: s.db.Dialect}
	s.db.Dialect = slow
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		slow.meanwhile = func() {}
		if expired, err := s.Sides().Replica.Expire(t.Context(), session, 0); err != nil || expired != want {
			t.Errorf("declared dead by this one: %t, want %t: %v", expired, want, err)
		}
	}
}
