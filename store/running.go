package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Running returns the running rows of a session, by id, with their requested cancellations, and whether dead sessions have running tasks, which
// Reap frees. It implements ledger.Tasks.
//
// Index: tasks_claim for the state; the rows are all that run, of any session. Each replica reads them every second, so one statement
// says both.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Running(ctx context.Context, session string) (ledger.Running, error) {
	return get(ctx, s.read, "running tasks", func(t *tx) (is ledger.Running, err error) {
		err = each(t.rows("SELECT id, token, claim_id, cancel, session_id FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND (session_id=? OR "+ofDead+") ORDER BY id", session),
			func(m *taskModel) {
				if string(m.SessionID) != session {
					is.Orphaned = true
					return
				}
				is.Own = append(is.Own, ledger.Own{TaskID: m.Task.ID, Token: m.Task.Token, ClaimID: string(m.ClaimID), Cancel: m.Cancel})
			})
		return is, err
	})
}
