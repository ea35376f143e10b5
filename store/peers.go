package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Peers returns the live sessions, own one and those of workers included, and the dead ones that still have running
// tasks, sorted by replica id.
func (s replica) Peers(ctx context.Context) ([]ledger.Peer, error) {
	return peers(ctx, "peers", s.read)
}

// Replicas returns the live replicas, and the dead ones that still have running tasks, sorted by id.
func (s *Store) Replicas(ctx context.Context) ([]wire.Replica, error) {
	all, err := views{s}.Replicas(ctx)
	return mapped(all, ledger.Peer.View), err
}

// Replicas is Peers as a view, for which no replica waits, without workers.
func (s views) Replicas(ctx context.Context) ([]ledger.Peer, error) {
	all, err := peers(ctx, "replicas", s.view)
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

// seen is the condition for a session among the peers.
const seen = "dead = 0 OR id IN (SELECT session_id FROM {tasks} WHERE state = 2)"

// peers: index tasks_claim, as few tasks run.
func peers(ctx context.Context, op string, by reading) ([]ledger.Peer, error) {
	return get(ctx, by, op, func(t *tx) ([]ledger.Peer, error) { return t.peers(seen) })
}

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
