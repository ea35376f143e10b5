package memstore

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Report implements ledger.Tasks.
func (s *Store) Report(ctx context.Context, session string, reports []ledger.Progress) (ours []bool, err error) {
	err = s.tx(ctx, "report progress", func(t *tx) error {
		ours = make([]bool, len(reports))
		for i, p := range reports {
			r := t.tasks.rows[p.TaskID]
			if ours[i] = r.State == Running && r.Session == session && r.Token == p.Token && !t.sessions.rows[session].Dead; ours[i] {
				r.Progress = p.Column()
				put(t, &t.tasks, r)
			}
		}
		return nil
	})
	return ours, err
}
