package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// startedIn is what started between the beginning and the end of a call.
type startedIn struct {
	from, to time.Duration
	n        int
}

// The rate is exact over replicas that claim at the same time, and over replicas that decide: whatever stretch of time one looks at,
// no more start in it than the burst and what the rate gives in that time. A start lies between the beginning and the end of its call.
// So the stretches are those from the beginning of one call to the end of another, and nothing is allowed for the time that calls take.
func rateTogether(t *testing.T, b *Bench) {
	const burst, interval = 5, 20 * time.Millisecond
	s := newScene(t, b)
	replicas := make([]*scene, 4)
	for i := range replicas {
		replicas[i] = s.second(fmt.Sprint("replica ", i))
	}
	for _, claimers := range []int{4, 0} { // the others decide
		s.rate("default", "50/s", burst)
		s.enqueue("default", 300)
		calls := make([][]startedIn, len(replicas))
		began := time.Now()
		call := func(i, n int) (c startedIn, err error) {
			c.from = time.Since(began)
			if i < claimers {
				claim := replicas[i].claiming("default", 100)
				share(&claim, func(s *ledger.Share) { s.Limited = true })
				var got ledger.Claimed
				got, err = replicas[i].Store.Claim(s.ctx(), claim)
				c.n = len(got.Tasks)
			} else {
				var got ledger.Decided
				got, err = replicas[i].Store.Decide(s.ctx(), replicas[i].opening(n, n, 9, []string{"a", "b", "c", "a"}[i]))
				c.n = len(got.Started)
			}
			c.to = time.Since(began)
			return c, err
		}
		least := burst
		Together(t, len(calls), func(_ context.Context, i int) error {
			var first, last startedIn
			var lost time.Duration // while the bucket may have been full, and nobody took
			for n := 1; time.Since(began) < 500*time.Millisecond && (i < claimers || n <= 100); n++ {
				c, err := call(i, n)
				if err != nil {
					return err
				}
				if n == 1 {
					first, last = c, c
				}
				lost, last = lost+max(0, c.to-last.from-(burst-1)*interval), c
				if c.n > 0 {
					calls[i] = append(calls[i], c)
				}
			}
			if i == 0 {
				least += int(max(0, last.from-first.to-lost) / interval)
			}
			return nil
		})
		all := slices.Concat(calls...)
		total := 0
		for _, first := range all {
			total += first.n
			for _, last := range all {
				sum := 0
				for _, c := range all {
					if c.from >= first.from && c.to <= last.to {
						sum += c.n
					}
				}
				if most := burst + int((last.to-first.from)/interval); sum > 0 && sum > most {
					t.Fatalf("%d started in %v, want %d at most", sum, last.to-first.from, most)
				}
			}
		}
		s.wantInt(int64(total), "SELECT COUNT(*) FROM {tasks} WHERE state=2")
		if claimers == len(replicas) && total < least { // claims leave nothing that they could take
			t.Errorf("%d started, want %d at least", total, least)
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
		s.DB.Exec(t, "DELETE FROM {triggers}")
	}
}

// The time of a bucket is read under the lock of its row. That of a claim that has waited for the lock is not from before: what it
// takes would be in the bucket again at once.
func rateUnderTheLock(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // where a transaction has the whole database
	}
	s := newScene(t, b)
	s.rate("work", "20/s", 2)
	s.enqueue("work", 9)
	holds, err := b.DB.Handle().BeginTx(s.ctx(), nil)
	must(t, err)
	defer func() { _ = holds.Rollback() }()
	must(t, holds.QueryRowContext(s.ctx(), "SELECT name FROM lockstep_pools WHERE name='work' FOR UPDATE").Scan(new(string)))
	asked := make(chan time.Time, 1)
	var released time.Time
	Together(t, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			c := s.claiming("work", 9)
			share(&c, func(s *ledger.Share) { s.Limited = true })
			c.Now = func(database time.Time) (time.Time, error) {
				select {
				case asked <- database:
				default: // it tries again
				}
				return database, nil
			}
			got, err := b.Store.Claim(ctx, c)
			if len(got.Tasks) != 2 {
				t.Errorf("claimed %d", len(got.Tasks))
			}
			return err
		}
		var began time.Time
		select {
		case began = <-asked:
		case <-ctx.Done():
			return ctx.Err()
		}
		for released.Sub(began) < 200*time.Millisecond { // twice as long as an empty bucket takes to be full
			var at int64
			if err := holds.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))").Scan(&at); err != nil {
				return err
			}
			released = time.UnixMicro(at)
		}
		return holds.Rollback()
	})
	if full := s.fullAt("work"); full.Before(released.Add(100 * time.Millisecond)) {
		t.Errorf("the bucket that was emptied is full %v after the lock was free", full.Sub(released))
	}
}

// A decision starts no more than the buckets of its pools have, and takes that. The rest is pending.
func rateDecides(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("default", "1/m", 2)
	got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(1, 0, 9, "a", "b", "c")))
	must(t, err)
	if len(got.Started) != 2 || len(got.Opened) != 1 || got.Opened[0].Job != "c" {
		t.Errorf("%d started, %d pending", len(got.Started), len(got.Opened))
	}
	s.none("after a decision", s.limitedClaim("default", 9))
	full := s.fullAt("default")
	if got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(2, 5, 9, "a", "b", "c"))); err != nil || len(got.Started) > 0 || len(got.Opened) != 3 {
		t.Errorf("with an empty bucket: %+v, %v", got, err)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} WHERE state=2")
	s.wantInt(full.UnixNano(), "SELECT bucket_full_at FROM {pools} WHERE name='default'")
	s.pass("default", time.Minute)
	if got := s.limitedClaim("default", 9); len(got.Tasks) != 1 {
		t.Errorf("claimed %d after a minute", len(got.Tasks))
	}

	// Each pool has its own bucket.
	s.rate("default", "1/m", 1)
	s.rate("work", "1/m", 5)
	s.DB.Exec(t, "DELETE FROM {tasks}")
	request := s.opening(9, 0, 9, "a", "b", "c")
	decide := request.Decide
	request.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		all := decide(now, states)
		all[0].Triggers[0].Task.Pool, all[2].Triggers[0].Task.Pool = "work", "work"
		return all
	}
	request.Pools["work"] = request.Pools["default"]
	if got, err = decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) != 3 {
		t.Errorf("in two pools: %+v, %v", got, err)
	}
	s.enqueue("default", 9)
	s.enqueue("work", 9)
	s.none("one of one", s.limitedClaim("default", 9))
	if got := s.limitedClaim("work", 9); len(got.Tasks) != 3 {
		t.Errorf("two of five started, and then %d", len(got.Tasks))
	}
}

// A new task waits behind the pending ones of its priority that take all that the bucket has. What does not start takes nothing.
func rateCompetes(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("default", "1/m", 2)
	made := s.enqueue("default", 1)
	for _, c := range []struct{ n, room, priority, want int }{{1, 9, 0, 1}, {2, 0, 0, 0}, {3, 9, 0, 0}} {
		got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(c.n, c.priority, c.room, "a", "b")))
		must(t, err)
		if len(got.Started) != c.want || len(got.Opened) != 2-c.want {
			t.Errorf("%+v: %d started, %d pending", c, len(got.Started), len(got.Opened))
		}
	}
	if d := cmp.Diff(made, ids(s.limitedClaim("default", 9).Tasks)); d != "" {
		t.Error(d)
	}
	s.rate("default", "1/m", 2)
	s.DB.Exec(t, "DELETE FROM {tasks}")
	s.enqueue("default", 2)
	if got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(9, 0, 9, "a"))); err != nil || len(got.Started) > 0 {
		t.Errorf("behind as many as may start: %+v, %v", got, err)
	}
	s.wantInt(0, "SELECT bucket_full_at FROM {pools} WHERE name='default'")
	if got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(10, 5, 9, "b"))); err != nil || len(got.Started) != 1 {
		t.Errorf("before them: %+v, %v", got, err)
	}
	if got := s.limitedClaim("default", 9); len(got.Tasks) != 1 || got.Tasks[0].State != jobs.StateRunning {
		t.Errorf("claimed %+v", got.Tasks)
	}
}
