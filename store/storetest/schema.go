package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/store"
)

var schemaCases = []Case{
	{"Schema/MigrateTwice", migrateTwice},
	{"Schema/Namespace", namespace},
	{"Schema/NoCounter", noCounter},
}

func migrateTwice(t *testing.T, b *Bench) {
	must(t, b.SQL().Migrate(t.Context()))
	must(t, b.SQL().CheckSchema(t.Context()))
}

func namespace(t *testing.T, b *Bench) {
	load(t, b, Join(t, b, "a"), definitions()) // which writes into the same table
	first, err := b.SQL().Namespace(t.Context())
	must(t, err)
	again, err := b.Open(t).Namespace(t.Context())
	must(t, err)
	if len(first) != 16 || first != again || first != b.DB.Text(t, "SELECT value FROM {meta} WHERE name = 'namespace'") {
		t.Fatalf("namespace is %q, and then %q", first, again)
	}
}

// A database without the row that orders all that join, load or assert refuses all three.
func noCounter(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	b.DB.Exec(t, "DELETE FROM {meta} WHERE name='config_counter'")
	defer b.DB.Exec(t, "INSERT INTO {meta} (name, value) VALUES ('config_counter', '0')")
	_, err := b.Store.Join(t.Context(), ledger.Member{Replica: "b", LockService: "x"})
	if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "config_counter") {
		t.Errorf("Join: %v", err)
	}
	if _, err := b.Store.Load(t.Context(), session, definitions()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("Load: %v", err)
	}
	if _, err := b.Store.Assert(t.Context(), session, definitions()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("Assert: %v", err)
	}
	if n := b.DB.Int(t, "SELECT COUNT(*) FROM {jobs}"); n != 0 {
		t.Errorf("%d jobs were written", n)
	}
}

// Together runs fn n times at once and fails with the first error. They have two minutes.
func Together(t *testing.T, n int, fn func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return fn(ctx, i) })
	}
	must(t, g.Wait())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
