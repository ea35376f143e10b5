package storetest

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"
)

var schemaCases = []Case{
	{"Schema/MigrateTwice", migrateTwice},
	{"Schema/Namespace", namespace},
}

func migrateTwice(t *testing.T, b *Bench) {
	must(t, b.Store.Migrate(t.Context()))
	must(t, b.Store.CheckSchema(t.Context()))
}

func namespace(t *testing.T, b *Bench) {
	first, err := b.Store.Namespace(t.Context())
	must(t, err)
	again, err := b.Open(t).Namespace(t.Context())
	must(t, err)
	if len(first) != 16 || first != again {
		t.Fatalf("namespace is %q, and then %q", first, again)
	}
}

// Together runs fn n times at once and fails with the first error.
func Together(t *testing.T, n int, fn func(ctx context.Context, i int) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
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
