package sqlkit

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whose time runs out while others have the write lock is told so.
func TestWhoWaitsForTheWriteLockIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "a.db")
		var conns []*sql.Conn
		for range 2 {
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
		}
		if err := (SQLite{}).Begin(t.Context(), conns[0]); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := SQLite{}.Begin(ctx, conns[1])
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "context deadline exceeded, after database is locked") || !strings.HasSuffix(err.Error(), heldElsewhere) {
			t.Error(err)
		}
	})
}

// An eager BEGIN asks each millisecond, where SQLite's own waiting asks up to 100 ms apart; the connection keeps its busy_timeout.
func TestAnEagerBegin(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var conns []*sql.Conn
	for range 2 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	timeout := func() (n int) {
		if err := conns[1].QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	d := SQLite{Eager: true}
	if err := d.Begin(t.Context(), conns[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := d.Begin(ctx, conns[1]); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
		t.Errorf("while another connection writes: %v after %v", err, time.Since(began))
	}
	if n := timeout(); n != 5000 {
		t.Errorf("busy_timeout %d after a refusal", n)
	}
	if err := d.Commit(t.Context(), conns[0]); err != nil {
		t.Fatal(err)
	}
	if err := d.Begin(t.Context(), conns[1]); err != nil {
		t.Fatal(err)
	}
	if n := timeout(); n != 5000 {
		t.Errorf("busy_timeout %d in a transaction", n)
	}
}
