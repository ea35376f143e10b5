package store

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// committing is a dialect that does something before the next COMMIT.
type committing struct {
	sqlkit.Dialect
	first func()
}

func (c *committing) Commit(ctx context.Context, conn *sql.Conn) error {
	if first := c.first; first != nil {
		c.first = nil
		first()
	}
	return c.Dialect.Commit(ctx, conn)
}

// A claim gives a late place to a task whose key has an old sequence, and the sweep deletes old sequences meanwhile, in both orders:
//
//  1. the claim has read that there is a sequence, and has written the place; the sweep must not go by what was committed before. MariaDB has
//     its deletion wait for the place in any case
//  2. the sweep has deleted the sequence; the claim, which does not see that, must not read that there is one, and write the place
//
// A place without a sequence is not found by claims: the second task with the key would wait for ever. SQLite has one writer.
func TestASweepLeavesSequencesOfLatePlaces(t *testing.T) {
	for name, order := range map[string]func(claims, sweeps *committing, claim, sweep func()){
		"the claim first": func(claims, _ *committing, claim, sweep func()) { claims.first = sweep; claim() },
		"the sweep first": func(_, sweeps *committing, claim, sweep func()) { sweeps.first = claim; sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			dsn := servers.MySQL(t)
			one, two := migrated(t, "mysql", dsn, Options{}), migrated(t, "mysql", dsn, Options{})
			claims, sweeping := &committing{Dialect: one.db.Dialect}, &committing{Dialect: two.db.Dialect}
			one.db.Dialect, two.db.Dialect = claims, sweeping
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ctx := t.Context()
			session, err := one.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
			check(err)
			_, err = one.Sides().Replica.Load(ctx, session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 1, Order: jobs.OrderKey}}})
			check(err)
			made, err := one.Enqueue(ctx, jobs.NewTask{Pool: "p", Key: "k"}, jobs.NewTask{Pool: "p", Key: "k"})
			check(err)
			check(one.tx(ctx, "as enqueued before the order, and a sequence of an earlier one", func(t *tx) error {
				for _, statement := range []string{"DELETE FROM {key_waits}", "UPDATE {sequences} SET last_place=1"} {
					if _, err := t.Exec(statement); err != nil {
						return err
					}
				}
				return nil
			}))
			claim := func() (got []ledger.Started) {
				is, err := one.Sides().Replica.Claim(ctx, ledger.Claim{
					Admission: ledger.Admission{
						Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Limited: true, Room: 9}},
						Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
					},
					Pool: "p", ID: uuid.NewString(), Now: func(now time.Time) (time.Time, error) { return now, nil },
				})
				check(err)
				return is.Tasks
			}
			var got []ledger.Started
			order(claims, sweeping, func() { got = append(got, claim()...) }, func() {
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // it may wait for the claim, which waits for it here
				defer cancel()
				for _, w := range sweeps(jobs.Retention{}) {
					if w.what == "sequences" {
						_ = two.sure(ctx, "sweep", func(t *tx) error { _, err := w.once(t, micros(time.Now().Add(-w.age)), 9); return err })
					}
				}
			})
			for range 2 {
				if len(got) == 0 {
					got = claim()
				}
				for i, k := range got {
					if i > 0 || k.ID != made[0].ID {
						t.Errorf("started %s, want %s", k.ID, made[0].ID)
					}
					_, err := one.Sides().Replica.Finish(ctx, session, []ledger.Result{{TaskID: k.ID, Token: k.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: k.Task}})
					check(err)
				}
				made, got = made[1:], claim()
			}
			if n := text(t, one, "SELECT COUNT(*) FROM {done}"); n != "2" {
				t.Errorf("%s of 2 tasks have ended", n)
			}
		})
	}
}
