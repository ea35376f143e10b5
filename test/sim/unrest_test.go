package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// hidesWaits is a store that names no task that waits for its locks.
type hidesWaits struct{ ledger.Store }

func (hidesWaits) FirstWaits(context.Context, string, []string, int) ([]ledger.Wait, time.Time, error) {
	return nil, time.Time{}, nil
}

// A world that does not come to rest shows what is open, who waits, who has locks, and what the replicas do.
func TestUnrestIsShown(t *testing.T) {
	t.Parallel()
	w := simulate(t, crowd(1), func(s ledger.Store) ledger.Store { return hidesWaits{s} })
	if !slices.ContainsFunc(w.violations, func(v violation) bool { return strings.HasPrefix(v.text, "not at rest") }) {
		t.Fatalf("%v: it came to rest", w.violations)
	}
	for _, part := range []string{"open: {ID:", "waits for a lock: [user/orders-db", "at the lock service: {Key:", "internal/work.(*waits).run"} {
		if !strings.Contains(w.story("", 10_000), part) {
			t.Errorf("%q is not shown:\n%s", part, w.story("", 100))
		}
	}
}
