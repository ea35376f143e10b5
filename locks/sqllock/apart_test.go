package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Two namespaces in one database touch nothing of each other, though they have the same keys under the same tokens (in mode row,
// under others).
func TestNamespacesInOneDatabaseKeepApart(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		in := func(namespace string) driver.Session {
			t.Helper()
			s, err := d.Open(t.Context(), driver.Open{Namespace: namespace, TTL: time.Minute, Owner: "owner"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close(context.Background()) })
			return s
		}
		x, y := in("x"), in("y")
		high := time.Now().Add(24 * time.Hour).UnixMicro()
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_marks SET token = ?`, high); err != nil {
			t.Fatal(err)
		}
		ofX, ofY := take(t, x, "a", "b", "c"), take(t, y, "a", "b", "c")
		if !slices.Equal(ofX, ofY) && d.Caps().Name != "mysql-row" { // where one counter serves all namespaces
			t.Fatalf("tokens of one count the other's: %v, %v", ofX, ofY)
		}
		lists := func(s driver.Session) (keys []string) {
			t.Helper()
			infos, err := s.List(t.Context(), "", "", 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				keys = append(keys, info.Key)
			}
			return keys
		}
		if gone, err := x.Evict(t.Context(), "a", ofX[0].Token); !gone || err != nil {
			t.Fatal(gone, err)
		}
		if err := x.Release(t.Context(), ofX[1:2]); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the list shows what x holds", func() bool { return slices.Equal(lists(x), []string{"c"}) })
		if got := lists(y); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("y holds %q", got)
		}
		if still, err := y.Check(t.Context(), ofY); err != nil || slices.Contains(still, false) {
			t.Errorf("y still holds %v, %v", still, err)
		}
		if still, err := x.Check(t.Context(), ofX); d.Caps().Name != "mysql-row" && (err != nil || !slices.Equal(still, []bool{false, false, true})) {
			t.Errorf("x still holds %v, %v", still, err)
		}
		if still, err := x.Check(t.Context(), ofX[2:]); err != nil || !still[0] {
			t.Errorf("x holds c no more: %v", err)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := lists(y); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("after the end of x y holds %q", got)
		}
	})
}

// Under another token, or that of another session, nothing is released.
func TestAReleaseNamesTheToken(t *testing.T) {
	every(t, func(t *testing.T, _ *sql.DB, d driver.Driver) {
		s, other := session(t, d, time.Minute), session(t, d, time.Minute)
		held := take(t, s, "a", "b", "c")
		stale := slices.Clone(held)
		for i := range stale {
			stale[i].Token--
		}
		stale[0].Token = held[2].Token // of another key
		if err := s.Release(t.Context(), stale); err != nil {
			t.Fatal(err)
		}
		if err := other.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		if still, err := s.Check(t.Context(), held); err != nil || slices.Contains(still, false) {
			t.Errorf("still held: %v, %v", still, err)
		}
	})
}

// A namespace cleans up after its own sessions: another one, which would not find their keys, leaves them alone.
func TestANamespaceReapsItsOwnSessions(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // the rows say no more of it than that they are free
		}
		dead := session(t, d, time.Minute)
		take(t, dead, "k")
		expire(db)(t, dead)
		other, err := d.Open(t.Context(), driver.Open{Namespace: "other", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		session(t, d, time.Minute)
		left := 0
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_lock_leases2`).Scan(&left); err != nil || left > 0 {
			t.Errorf("%d keys of the expired session are left, %v", left, err)
		}
	})
}

// While a process has frozen as it takes a key of one namespace, those of the others are taken.
func TestAFrozenNamespaceStopsNoOther(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "sqlite" {
			return // the file has one writer
		}
		s := session(t, d, time.Minute)
		other, err := d.Open(t.Context(), driver.Open{Namespace: "other", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(t.Context())
		frozen := begin(t, db, `UPDATE lockstep_lock_marks SET token = token + 1 WHERE namespace = 'other'`)
		defer frozen.Rollback()
		ctx, cancel := contextFor(t, 15*time.Second)
		defer cancel()
		if got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}}); err != nil || got[0].Token == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Keys of an expired session are not listed, before they are reaped, and are its own no more. It is not
// renewed.
func TestAnExpiredSessionHoldsNothing(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // no clock and no mark decides expiry
		}
		for what, over := range map[string]string{
			"expired": "UPDATE lockstep_lock_sessions2 SET expires_at = 1 WHERE id = ?",
			"dead":    "UPDATE lockstep_lock_sessions2 SET dead = 1 WHERE id = ?",
			"gone":    "DELETE FROM lockstep_lock_sessions2 WHERE id = ?",
		} {
			a, b := session(t, d, time.Minute), session(t, d, time.Minute)
			held := take(t, a, "of "+what)
			stays := take(t, b, "of the living")
			if _, err := db.ExecContext(t.Context(), over, a.ID()); err != nil {
				t.Fatal(err)
			}
			if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
				t.Errorf("%s: it was renewed: %v", what, err)
			}
			infos, err := b.List(t.Context(), "of ", "", 10)
			if err != nil || len(infos) != 1 || infos[0].Key != "of the living" {
				t.Errorf("%s: listed are %v, %v", what, infos, err)
			}
			if still, err := a.Check(t.Context(), held); err == nil && still[0] {
				t.Errorf("%s: it still holds %v", what, held)
			}
			if still, err := b.Check(t.Context(), stays); err != nil || !still[0] {
				t.Errorf("%s: the living holds nothing: %v", what, err)
			}
			take(t, b, "of "+what) // at once
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
