package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A session in mode row closes within the timeout of a call (locks.Options.CallTimeout, 2 s) where a round trip takes 300 ms, and
// opens within 5 s where one takes 100 ms, however many keys it held and however many free rows others left.
func TestRowModeFarServer(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	db, near := opened(t, through), open(t, "mysql", dsn)
	far := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	s := session(t, far, time.Minute)
	var keys, left []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("held-%d", i))
	}
	for i := range 100 {
		left = append(left, fmt.Sprintf("('n', 'left-%d')", i))
	}
	take(t, s, keys...)
	const round = 300 * time.Millisecond
	p.Set(proxy.Slow(round/2, 0))
	ctx, cancel := contextFor(t, 6*round)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if n := rowsIn(t, near); n != 0 {
		t.Errorf("%d rows are left of %d keys that were released", n, len(keys))
	}
	p.Set(proxy.Fault{})
	if _, err := near.ExecContext(t.Context(), `INSERT INTO lockstep_lock_rows VALUES `+strings.Join(left, ", ")); err != nil {
		t.Fatal(err)
	}
	held := begin(t, near, `SELECT name FROM lockstep_lock_rows WHERE namespace = 'n' AND name = 'left-50' FOR UPDATE`)
	p.Set(proxy.Slow(50*time.Millisecond, 0))
	again, err := far.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	if n := rowsIn(t, near); n != 1 {
		t.Errorf("%d rows are left; want the locked one", n)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// rowsIn is how many rows of keys there are, held or free.
func rowsIn(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_lock_rows`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
