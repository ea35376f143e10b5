package storetest

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/store"
)

var schemaCases = []Case{
	{"Schema/MigrateTwice", migrateTwice},
	{"Schema/Namespace", namespace},
}

func migrateTwice(t *testing.T, b *Bench) {
	must(t, b.SQL().Migrate(t.Context()))
	must(t, b.SQL().CheckSchema(t.Context()))
}

func namespace(t *testing.T, b *Bench) {
	load(t, b, Join(t, b, "a"), definitions()) // which writes into the same table
	first, err := b.SQL().Namespace(t.Context())
	must(t, err)
	again, err := b.Open(t).(*store.Store).Namespace(t.Context())
	must(t, err)
	if len(first) != 16 || first != again || first != b.DB.Text(t, "SELECT value FROM {meta} WHERE name = 'namespace'") {
		t.Fatalf("namespace is %q, and then %q", first, again)
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
