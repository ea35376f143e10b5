package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Own implements ledger.Tasks.
func (s *Store) Own(ctx context.Context, session string) (own []ledger.Own, err error) {
	err = s.tx(ctx, "own tasks", func(t *tx) error {
		for _, r := range t.tasks.rows {
			if r.State == Running && r.Session == session {
				own = append(own, ledger.Own{TaskID: r.ID, Token: r.Token, ClaimID: r.ClaimID, Cancel: r.Cancel})
			}
		}
		return nil
	})
	slices.SortFunc(own, func(a, b ledger.Own) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return own, err
}
