package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Own returns the running rows of a session, by id, and what was asked of them. It implements the
// scheduler's Tasks.
//
// Index: tasks_due for the state; the rows are all that run, of any session.
//
// Errors: jobs.ErrUnavailable.
func (s *Store) Own(ctx context.Context, session string) ([]ledger.Own, error) {
	var own []ledger.Own
	err := s.read(ctx, "own tasks", func(t *tx) error {
		own = nil
		return t.Query("SELECT id, token, claim_id, cancel FROM {tasks}{index}{tasks}_due{end} WHERE state=2 AND session_id=? ORDER BY id", []any{session},
			func(scan func(...any) error) error {
				var o ledger.Own
				err := scan(&o.TaskID, &o.Token, &o.ClaimID, &o.Cancel)
				own = append(own, o)
				return err
			})
	})
	return own, err
}
