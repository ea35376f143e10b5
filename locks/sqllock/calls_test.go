package sqllock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// How many statements calls send, each of which costs a round trip, where the handle is READ COMMITTED.
func TestStatementsOfCalls(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	d := sqllock.New(opened(t, dsn), sqllock.MySQL, sqllock.Options{})
	s, other := session(t, d, time.Minute), session(t, d, time.Minute)
	var mu sync.Mutex
	var sent []string
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		defer mu.Unlock()
		// Polls, which an own goroutine sends, are not counted, nor what an idle connection is asked.
		if c.Query != "" && !strings.HasPrefix(c.Query, polling) && !strings.HasPrefix(c.Query, "SET SESSION") {
			sent = append(sent, c.Query)
		}
		return proxy.Pass
	})
	costs := func(what string, most int, call func()) {
		t.Helper()
		mu.Lock()
		sent = nil
		mu.Unlock()
		call()
		mu.Lock()
		defer mu.Unlock()
		if len(sent) > most || len(sent) == 0 {
			t.Errorf("%s: %d statements, want %d:\n%s", what, len(sent), most, clipped(sent))
		}
	}
	queue := func(c driver.Session, release []driver.Held) (driver.Place, driver.Result) {
		t.Helper()
		place := driver.Place{Acquisition: rand.Text(), Key: "k"}
		r, err := c.Queue().Acquire(t.Context(), place.Acquisition, release, []driver.Want{{Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		return place, r[0]
	}
	var held, many []driver.Held
	costs("a free key", 4, func() { held = take(t, s, "k") })
	costs("a busy key", 5, func() { lockstest.Acquire(t, other, "1", "k") })
	costs("a key that was busy before", 1, func() { lockstest.Acquire(t, other, "2", "k") })
	costs("a place", 6, func() { queue(other, nil) })
	costs("a turn", 7, func() { queue(s, held) })
	costs("a release without a waiter", 1, func() { _ = s.Release(t.Context(), take1(t, s, "l", func() { mu.Lock(); sent = nil; mu.Unlock() })) })
	alone := take(t, s, "m")
	costs("the first turn of a session that is alone", 4, func() { alone = next(t, s, "3", alone) })
	costs("its next turn", 1, func() { alone = next(t, s, "4", alone) })
	var keys []string
	for i := range 100 {
		keys = append(keys, string(rune('A'+i/10))+string(rune('0'+i%10)))
	}
	costs("100 free keys", 8, func() { many = take(t, s, keys...) })
	costs("a renewal", 1, func() { renew(t, s, nil, false) })
	costs("a renewal with a sample", 1, func() { renew(t, s, many[:16], false) })
	costs("a release of 100", 1, func() { _ = s.Release(t.Context(), many) })
}

func clipped(sent []string) string {
	var b strings.Builder
	for _, s := range sent {
		b.WriteString(s[:min(len(s), 100)] + "\n")
	}
	return b.String()
}

// take1 takes a key, and calls taken before it returns.
func take1(t *testing.T, s driver.Session, key string, taken func()) []driver.Held {
	t.Helper()
	held := take(t, s, key)
	taken()
	return held
}

func renew(t *testing.T, s driver.Session, sample []driver.Held, want bool) {
	t.Helper()
	if evicted, err := s.Renew(t.Context(), sample); err != nil || evicted != want {
		t.Errorf("renewal: evicted %t, %v; want %t", evicted, err, want)
	}
}

// The next renewal says that a key was evicted, and then no more; one that was deleted by hand is found by the sample.
func TestARenewalSaysWhatWasEvicted(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // what it holds ends with connections: TestRowModeRenewalSaysWhatWasLost
		}
		a, b := session(t, d, time.Minute), session(t, d, time.Minute)
		held := take(t, a, "a", "b", "c")
		renew(t, a, held, false)
		if freed, err := b.Evict(t.Context(), "a", held[0].Token); err != nil || !freed {
			t.Fatal(freed, err)
		}
		renew(t, b, nil, false)
		renew(t, a, nil, true)
		renew(t, a, nil, false)
		if _, err := db.ExecContext(t.Context(), `DELETE FROM lockstep_lock_leases2 WHERE name = 'b'`); err != nil {
			t.Fatal(err)
		}
		renew(t, a, held[2:], false)
		renew(t, a, held[1:], true)
	})
}

// A grant to a session of the same process is told at once, without a look into the database.
func TestAGrantIsToldWithinTheProcess(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	a := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	held := take(t, a, "k")
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if strings.HasPrefix(c.Query, polling) {
			return proxy.LoseRequest
		}
		return proxy.Pass
	})
	id := rand.Text()
	if r, err := b.Queue().Acquire(t.Context(), id, nil, []driver.Want{{Key: "k"}}); err != nil || !r[0].Queued {
		t.Fatal(r, err)
	}
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	select {
	case g := <-b.Queue().Granted():
		if g.Acquisition != id || g.Token <= held[0].Token {
			t.Errorf("%+v after %+v", g, held)
		}
	case <-time.After(10 * time.Second):
		t.Error("not told")
	}
}

// A reader that comes after a writer that waits is behind it also if it is asked for among several keys, or tried.
func TestNoReaderOvertakesInABatch(t *testing.T) {
	every(t, func(t *testing.T, _ *sql.DB, d driver.Driver) {
		if !d.Caps().Shared {
			return
		}
		a, b := session(t, d, time.Minute), session(t, d, time.Minute)
		readers := []driver.Want{{Key: "a", Shared: true}, {Key: "b", Shared: true}}
		if r, err := a.TryAcquire(t.Context(), "1", readers); err != nil || r[0].Token == 0 || r[1].Token == 0 {
			t.Fatal(r, err)
		}
		if r, err := b.Queue().Acquire(t.Context(), "2", nil, []driver.Want{{Key: "b"}}); err != nil || !r[0].Queued {
			t.Fatal(r, err)
		}
		r, err := b.TryAcquire(t.Context(), "3", readers)
		if err != nil || r[0].Token == 0 || r[1].Holder == nil {
			t.Errorf("%+v, %v: want the first granted, the second busy", r, err)
		}
		infos, err := a.List(t.Context(), "", "", 10)
		places := slices.DeleteFunc(infos, func(i driver.Info) bool { return i.Place == 0 })
		if err != nil || len(places) != 1 || places[0].Session != b.ID() || places[0].Remaining <= 0 {
			t.Errorf("waiting: %+v, %v", places, err)
		}
	})
}

// A renewal counts its sample without a lock: it does not wait for what writes there. At REPEATABLE READ, where a server that keeps a
// binary log would lock what an UPDATE reads, the sample is a statement of its own.
func TestARenewalLocksNoSample(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	var renewals atomic.Int64
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if strings.HasPrefix(c.Query, "UPDATE lockstep_lock_sessions2") || strings.Contains(c.Query, "EXISTS (SELECT 1 FROM lockstep_lock_sessions2") {
			renewals.Add(1)
		}
		return proxy.Pass
	})
	for level, statements := range map[string]int64{"READ-COMMITTED": 1, "REPEATABLE-READ": 2} {
		t.Run(level, func(t *testing.T) {
			db := open(t, "mysql", dsn)
			if level == "READ-COMMITTED" {
				db = opened(t, dsn)
			}
			s := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{}), time.Minute)
			held := take(t, s, "a", "b", "c")
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), `UPDATE lockstep_lock_leases2 SET meta = 'x' WHERE session_id = ?`, s.ID()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			renewals.Store(0)
			if evicted, err := s.Renew(ctx, held); err != nil || evicted {
				t.Errorf("beside a transaction that has locked what it holds: %t, %v", evicted, err)
			}
			if n := renewals.Load(); n != statements {
				t.Errorf("%d statements, want %d", n, statements)
			}
		})
	}
}
