package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Peers returns the live sessions, own one and those of workers included, sorted by replica id. It implements ledger.Sessions.
//
// Index: sessions_dead.
func (s replica) Peers(ctx context.Context) ([]ledger.Peer, error) {
	return get(ctx, s.read, "peers", func(t *tx) ([]ledger.Peer, error) { return t.peers("dead = 0") })
}

// Replicas returns the live replicas, and the dead ones that still have running tasks, sorted by id.
func (s *Store) Replicas(ctx context.Context) ([]wire.Replica, error) {
	all, err := views{s}.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	return ledger.Views(all), nil
}

// Replicas is Peers as a view, for which no replica waits, without workers, and with the dead ones that still have running tasks.
//
// Index: tasks_claim, as few tasks run.
func (s views) Replicas(ctx context.Context) ([]ledger.Peer, error) {
	all, err := get(ctx, s.view, "replicas", func(t *tx) ([]ledger.Peer, error) { return t.peers(seen) })
	replicas, _ := ledger.Replicas(all)
	return replicas, err
}

// Workers is Replicas for the workers, each with its running tasks.
//
// Index: tasks_claim, as few tasks run.
func (s views) Workers(ctx context.Context) ([]ledger.WorkerStatus, error) {
	return get(ctx, s.view, "workers", func(t *tx) ([]ledger.WorkerStatus, error) {
		all, err := t.peers("pool<>'' AND (" + seen + ")")
		if len(all) == 0 || err != nil {
			return nil, err
		}
		workers, at := make([]ledger.WorkerStatus, len(all)), map[string]int{}
		for i, p := range all {
			workers[i].Peer, at[p.Session] = p, i
		}
		err = each(t.rows(`SELECT session_id, COUNT(*) AS n, MIN(id) AS id FROM {tasks}{index}{tasks}_claim{end}
			WHERE state=2 AND session_id IN (SELECT id FROM {sessions} WHERE pool<>'') GROUP BY session_id`), func(m *struct {
			SessionID, ID string
			N             int
		}) {
			if i, is := at[m.SessionID]; is { // else it has come since
				workers[i].Running, workers[i].Task = m.N, m.ID
			}
		})
		return workers, err
	})
}

// seen is the condition for a session that is shown.
const seen = "dead = 0 OR id IN (SELECT session_id FROM {tasks} WHERE state = 2)"

// Expire declares a session dead if its beat is still the one given; false if it was not.
func (s replica) Expire(ctx context.Context, session string, beat int64) (bool, error) {
	expired := false
	expire := func(t *tx) error {
		n, err := t.Exec(`UPDATE {sessions} SET dead = 1, live = NULL WHERE id = ? AND beat = ? AND dead = 0`, session, beat)
		expired = n == 1
		return err
	}
	err := s.settle(ctx, "expire", expire, func(t *tx) (bool, error) {
		var dead bool
		_, err := t.One(`SELECT dead FROM {sessions} WHERE id = ?{for_update}`, []any{session}, &dead)
		return dead, err
	})
	return expired, err
}

func (t *tx) peers(where string) ([]ledger.Peer, error) {
	return list(t.rows("SELECT "+sessionColumns+" FROM {sessions} WHERE "+where+" ORDER BY replica, id"), (*sessionModel).peer)
}
