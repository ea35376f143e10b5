package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Look implements ledger.Tasks.
func (s *Store) Look(ctx context.Context, pool string, l ledger.Look) (seen ledger.Seen, err error) {
	err = s.tx(ctx, "look", func(t *tx) error {
		seen = ledger.Seen{Past: map[int]time.Time{}}
		ranks := map[int][]Task{}
		for _, r := range t.tasks.rows {
			if r.State == Ready && r.Pool == pool && !t.heldByKey(r) && inScope(ledger.Scope{Within: &ledger.Window{Priority: -r.Rank, After: l.Past[-r.Rank]}})(r) {
				ranks[r.Rank] = append(ranks[r.Rank], r)
			}
		}
		for _, rank := range slices.Sorted(maps.Keys(ranks)) {
			rows := ranks[rank]
			slices.SortFunc(rows, func(a, b Task) int { return cmp.Compare(a.RunAt, b.RunAt) })
			w := &ledger.Window{Priority: -rank, After: l.Past[-rank]}
			full := len(rows) >= l.Most
			if full {
				w.UpTo = fromMicros(rows[l.Most-1].RunAt)
			}
			l.Within = w
			switch {
			case slices.ContainsFunc(rows, inScope(l.Scope)):
				seen.Work = w
				return nil
			case full:
				seen.Past[w.Priority] = w.UpTo
			}
		}
		return nil
	})
	return seen, err
}
