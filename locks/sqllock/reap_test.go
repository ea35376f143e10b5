package sqllock_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Reaping one session ends that one alone: not another that looks expired while the database's clock is ahead, nor one
// that was stopped as it closed, whose keys are yet to be freed.
func TestOneSessionIsEndedAtATime(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // no clock decides expiry
		}
		set := func(s driver.Session, column string, to int64) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_sessions2 SET `+column+` = ? WHERE id = ?`, to, s.ID()); err != nil {
				t.Fatal(err)
			}
		}
		rows := func(of driver.Session) (n int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), `SELECT (SELECT COUNT(*) FROM lockstep_lock_sessions2 WHERE id = ?) +
				(SELECT COUNT(*) FROM lockstep_lock_leases2 WHERE session_id = ?)`, of.ID(), of.ID()).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		over, late, stopped, b := session(t, d, time.Minute), session(t, d, time.Minute), session(t, d, time.Minute), session(t, d, time.Minute)
		take(t, over, "of one that is over")
		held := take(t, late, "of one that seems so")
		take(t, stopped, "of one that was stopped")
		set(over, "expires_at", 1)
		set(late, "expires_at", 1)
		set(stopped, "dead", 1)
		set(stopped, "expires_at", 1)
		take(t, b, "of one that is over")
		if n := rows(over); n != 0 {
			t.Errorf("%d rows are left of the session that is over", n)
		}
		set(late, "expires_at", time.Now().Add(30*time.Second).UnixMicro()) // the clock is right again
		if err := lockstest.Renew(t.Context(), late); err != nil {
			t.Errorf("renew: %v", err)
		}
		if still, err := late.Check(t.Context(), held); err != nil || !still[0] {
			t.Errorf("check: %v, %v", still, err)
		}
		session(t, d, time.Minute) // sweeps
		if n := rows(stopped); n != 0 {
			t.Errorf("%d rows are left of the session that was stopped", n)
		}
	})
}

// A session that has more than its ttl left, since the database's clock was set back, gets its ttl from now on. One whose ttl
// is that long keeps what it has. A renewal in time gives all of it again.
func TestASessionHasItsTTLLeft(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // no clock decides expiry
		}
		ahead, long, b := session(t, d, time.Minute), session(t, d, 2*time.Hour), session(t, d, time.Minute)
		take(t, ahead, "k")
		set := func(s driver.Session, left time.Duration) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_sessions2 SET expires_at = ? WHERE id = ?`,
				time.Now().Add(left).UnixMicro(), s.ID()); err != nil {
				t.Fatal(err)
			}
		}
		has := func(when string, s driver.Session, want time.Duration) {
			t.Helper()
			var at int64
			if err := db.QueryRowContext(t.Context(), `SELECT expires_at FROM lockstep_lock_sessions2 WHERE id = ?`, s.ID()).Scan(&at); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(time.UnixMicro(at)); left > want+time.Second || left < want-15*time.Second {
				t.Errorf("%s it has %v left, want %v", when, left, want)
			}
		}
		set(ahead, time.Hour)
		if got := lockstest.Acquire(t, b, "1", "k"); got[0].Holder == nil {
			t.Fatalf("%+v; want it busy", got)
		}
		has("with too much,", ahead, time.Minute)
		has("with a long ttl,", long, 2*time.Hour)
		set(ahead, 30*time.Second)
		if err := lockstest.Renew(t.Context(), ahead); err != nil {
			t.Fatal(err)
		}
		has("after a renewal", ahead, time.Minute)
		has("with a long ttl,", long, 2*time.Hour)
	})
}

// After the database's clock was set back by an hour, the keys of a session that ended meanwhile are free after a
// ttl, not after an hour. A live session loses nothing, and none is expired whose ttl is longer
// than that of others.
func TestClockStepsBack(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // no clock decides expiry
		}
		long, b := session(t, d, time.Minute), session(t, d, 10*time.Second)
		stay := take(t, long, "long")
		dead := session(t, d, 5*time.Second) // its time begins now
		take(t, dead, "k")
		expiry := func(s driver.Session) (at int64) {
			if err := db.QueryRowContext(t.Context(), `SELECT expires_at FROM lockstep_lock_sessions2 WHERE id = ?`, s.ID()).Scan(&at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		before := expiry(long)
		ask := func(key string) bool {
			if err := lockstest.Renew(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			return lockstest.Acquire(t, b, "1", key)[0].Token > 0
		}
		if ask("long") || expiry(long) != before {
			t.Error("a session was shortened that has a longer ttl than the one that asked")
		}
		const hour = int64(time.Hour / time.Microsecond)
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_sessions2 SET expires_at = expires_at + ?`, hour); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the key of the ended session is free", func() bool { return ask("k") })
		if ask("long") {
			t.Error("the key of the living was granted to another one")
		}
		if after := expiry(long); after > before+hour/2 {
			t.Errorf("the session of the living ends %v after now", time.Duration(after-before)*time.Microsecond)
		}
		if err := lockstest.Renew(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		if still, err := long.Check(t.Context(), stay); err != nil || !still[0] {
			t.Errorf("the living: %v, %v", still, err)
		}
	})
}
