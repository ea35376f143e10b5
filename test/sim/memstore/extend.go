package memstore

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Extend implements ledger.Tasks.
func (s *Store) Extend(ctx context.Context, session string, moves []ledger.Extension) (ours []bool, err error) {
	err = s.tx(ctx, "extend", func(t *tx) error {
		ours = make([]bool, len(moves))
		for i, m := range moves {
			r := t.tasks.rows[m.TaskID]
			if ours[i] = r.State == Running && r.Session == session && r.Token == m.Token && !t.sessions.rows[session].Dead; ours[i] {
				r.MayRunUntil = max(r.MayRunUntil, micros(m.Until))
				put(t, &t.tasks, r)
			}
		}
		return nil
	})
	return ours, err
}
