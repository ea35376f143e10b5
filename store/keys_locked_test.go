package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A claim does not wait for a transaction that has locked the rows of keys, as one that ends tasks has: it leaves what it would write there for
// the next claim, and starts the rest. SQLite has no locks of rows.
func TestAClaimLeavesLockedKeysAlone(t *testing.T) {
	s, db, _ := recordedStore(t, store.MySQL)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{Pools: []ledger.PoolDef{
		{Name: "fair", Hash: "h", MaxAttempts: 1, Fair: &jobs.Fair{}}, {Name: "full", Hash: "h", MaxAttempts: 1, PerKey: jobs.KeyLimits{MaxRunning: 1}},
	}})
	check(err)
	enqueue := func(pool string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			_, err := s.Enqueue(ctx, jobs.NewTask{Pool: pool, Key: key})
			check(err)
		}
	}
	claim := func(pool string, room int) (keys string, ends []ledger.Result) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a lock is waited for longer
		defer cancel()
		got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Limited: true, Room: room}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
				Locks: lockless,
			},
			Pool: pool, ID: newID(), Now: func(now time.Time) (time.Time, error) { return now, nil },
		})
		check(err)
		for _, k := range got.Tasks {
			keys += k.Key
			ends = append(ends, ledger.Result{TaskID: k.ID, Token: k.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: k.Task})
		}
		return keys, ends
	}
	want := func(pool string, room int, want string) []ledger.Result {
		t.Helper()
		got, ends := claim(pool, room)
		if got != want {
			t.Errorf("claimed the keys %q of %s, want %q", got, pool, want)
		}
		return ends
	}
	locked := func(pool, key string, during func()) {
		t.Helper()
		tx, err := db.BeginTx(ctx, nil)
		check(err)
		defer func() { _ = tx.Rollback() }()
		var lookAt int64
		check(tx.QueryRowContext(ctx, "SELECT look_at FROM lockstep_keys WHERE pool=? AND task_key=? FOR UPDATE", pool, key).Scan(&lookAt))
		if lookAt == 0 {
			t.Errorf("no task waits for key %s of %s", key, pool)
		}
		during()
	}

	enqueue("full", "a", "a", "b", "b")
	ends := want("full", 9, "ab")
	_, err = s.Sides().Replica.Finish(ctx, session, ends)
	check(err)
	locked("full", "a", func() { want("full", 9, "b") })
	want("full", 9, "a")

	enqueue("fair", "a", "a", "b", "b")
	want("fair", 1, "a") // the others wait for their turn
	enqueue("fair", "a") // this one does not
	locked("fair", "a", func() { want("fair", 9, "bb") })
	want("fair", 9, "aa")
}
