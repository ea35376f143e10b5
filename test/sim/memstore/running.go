package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Running implements ledger.Tasks.
func (s *Store) Running(ctx context.Context, session string) (is ledger.Running, err error) {
	err = s.tx(ctx, "running tasks", func(t *tx) error {
		is = ledger.Running{}
		for _, r := range t.tasks.rows {
			switch owner, found := t.sessions.rows[r.Session]; {
			case r.State != Running:
			case r.Session == session:
				is.Own = append(is.Own, ledger.Own{TaskID: r.ID, Token: r.Token, ClaimID: r.ClaimID, Cancel: r.Cancel})
			case !found || owner.Dead:
				is.Orphaned = true
			}
		}
		return nil
	})
	slices.SortFunc(is.Own, func(a, b ledger.Own) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return is, err
}
