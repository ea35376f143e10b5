package memstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Peers implements ledger.Sessions.
func (s *Store) Peers(ctx context.Context) (peers []ledger.Peer, err error) {
	err = s.tx(ctx, "peers", func(t *tx) error {
		for _, r := range t.sorted() {
			if r.Dead {
				continue
			}
			p, err := r.peer()
			if err != nil {
				return err
			}
			peers = append(peers, p)
		}
		return nil
	})
	return peers, err
}

func (r Session) peer() (ledger.Peer, error) {
	p := ledger.Peer{
		Member: ledger.Member{
			Replica: r.Replica, Host: r.Host, PID: r.PID, PIDStart: r.PIDStart, BootID: r.BootID, Version: r.Version, Address: r.Address,
			Workers: r.Workers, LockService: r.LockService, TTL: time.Duration(r.TTL) * time.Microsecond, Config: r.Config,
			ConfigHash: r.ConfigHash, ConfigAt: fromMicros(r.ConfigAt), Pool: r.Pool, Owner: r.Owner,
		},
		Session: r.ID, Beat: r.Beat, Dead: r.Dead, Draining: r.Draining, Differs: r.Differs, JoinedAt: fromMicros(r.JoinedAt), SeenAt: fromMicros(r.SeenAt),
	}
	if len(r.Kinds) > 0 {
		if err := json.Unmarshal(r.Kinds, &p.Kinds); err != nil {
			return p, err
		}
	}
	return p, json.Unmarshal(r.Labels, &p.Labels)
}

// Expire implements ledger.Sessions.
func (s *Store) Expire(ctx context.Context, session string, beat int64) (expired bool, err error) {
	err = s.tx(ctx, "expire", func(t *tx) error {
		row, found := t.sessions.rows[session]
		if expired = found && !row.Dead && row.Beat == beat; expired {
			t.kill(row)
		}
		return nil
	})
	return expired, err
}
