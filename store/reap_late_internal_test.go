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

// preceded is a dialect that runs a call of another replica before its next transaction.
type preceded struct {
	sqlkit.Dialect
	meanwhile func()
}

func (o *preceded) Begin(ctx context.Context, conn *sql.Conn) error {
	if meanwhile := o.meanwhile; meanwhile != nil {
		o.meanwhile = nil
		meanwhile()
	}
	return o.Dialect.Begin(ctx, conn)
}

// A replica finds tasks of dead sessions, and another replica reaps them before it does: what is pending again by then
// stays so, and what a live replica has claimed by then goes on.
func TestAReaperComesLate(t *testing.T) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"mysql":  func(t *testing.T) string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			at := dsn(t)
			other, s := migrated(t, driver, at, Options{}), migrated(t, driver, at, Options{})
			late := &preceded{Dialect: s.db.Dialect}
			s.db.Dialect = late
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			join := func(replica string) string {
				t.Helper()
				session, err := other.Sides().Replica.Join(t.Context(), ledger.Member{Replica: replica, LockService: "x"})
				check(err)
				return session
			}
			dead, living := join("dead"), join("living")
			_, err := other.Sides().Replica.Load(t.Context(), living, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 9, Retry: true}}})
			check(err)
			_, err = other.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"})
			check(err)
			claim := func(session string, limit int) {
				t.Helper()
				got, err := other.Sides().Replica.Claim(t.Context(), ledger.Claim{
					Admission: ledger.Admission{
						Session: session, Replica: session, Pools: map[string]ledger.Share{"p": {Hash: "1", Room: limit}},
						Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
					},
					Pool: "p",
					ID:   uuid.NewString(),
					Now:  func(now time.Time) (time.Time, error) { return now, nil },
				})
				check(err)
				if len(got.Tasks) != limit {
					t.Fatalf("claimed %d of %d", len(got.Tasks), limit)
				}
			}
			claim(dead, 2)
			check(other.Sides().Replica.Leave(t.Context(), dead))
			late.meanwhile = func() {
				reaped, err := other.Sides().Replica.Reap(t.Context(), 9)
				check(err)
				if len(reaped) != 2 {
					t.Errorf("the other one reaped %d", len(reaped))
				}
				claim(living, 1)
			}
			reaped, err := s.Sides().Replica.Reap(t.Context(), 9)
			if err != nil || len(reaped) > 0 || late.meanwhile != nil {
				t.Errorf("reaped %+v, %v", reaped, err)
			}
			if n := text(t, s, `SELECT COUNT(*) FROM {tasks} WHERE state=2 AND session_id='`+living+`' AND token=2 AND losses=1`); n != "1" {
				t.Errorf("%s tasks of the living one run", n)
			}
			if n := text(t, s, `SELECT COUNT(*) FROM {tasks} WHERE state=0 AND losses=1`); n != "1" {
				t.Errorf("%s tasks are ready", n)
			}
		})
	}
}
