package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Own returns the running rows of a session, by id, and their requested cancellations. It implements
// ledger.Tasks.
//
// Index: tasks_claim for the state; the rows are all that run, of any session.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Own(ctx context.Context, session string) ([]ledger.Own, error) {
	return get(ctx, s.read, "own tasks", func(t *tx) ([]ledger.Own, error) {
		return list(t.rows("SELECT id, token, claim_id, cancel FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND session_id=? ORDER BY id", session),
			func(m *taskModel) ledger.Own {
				return ledger.Own{TaskID: m.Task.ID, Token: m.Task.Token, ClaimID: string(m.ClaimID), Cancel: m.Cancel}
			})
	})
}
