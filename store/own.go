package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Own returns the running rows of a session, by id, and their requested cancellations. It implements the
// scheduler's Tasks.
//
// Index: tasks_due for the state; the rows are all that run, of any session.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Own(ctx context.Context, session string) ([]ledger.Own, error) {
	var own []ledger.Own
	err := s.read(ctx, "own tasks", func(t *tx) error {
		own = nil
		return read(t, "SELECT id, token, claim_id, cancel FROM {tasks}{index}{tasks}_due{end} WHERE state=2 AND session_id=? ORDER BY id", []any{session},
			func(m *taskModel) error {
				own = append(own, ledger.Own{TaskID: m.Task.ID, Token: m.Task.Token, ClaimID: m.ClaimID, Cancel: m.Cancel})
				return nil
			})
	})
	return own, err
}
