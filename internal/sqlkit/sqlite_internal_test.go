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
