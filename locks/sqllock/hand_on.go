package sqllock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// A key that a session holds alone, and that only its own process waits for, goes from one acquisition to the next by one
// statement, without the mark of the namespace: its tokens were minted before, with that of the holding. All of them are below
// what the mark gives to any later grant of the key. None of them was given to a waiter before its turn: the statement that
// writes a token into the row is the grant.

// reserved is how many tokens are minted for the grants that follow one.
const reserved = 1000

// reserve are tokens for the grants of a key that follow a holding.
type reserve struct {
	held       driver.Token
	next, last driver.Token
}

// mostReserves is how many keys have one. Those of keys that were lost stay, so all are dropped once there are more.
const mostReserves = 10_000

// keep notes the tokens that were minted for a key, if there are any.
func (s *leaseSession) keep(key string, r reserve) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reserves) >= mostReserves {
		clear(s.reserves)
	}
	delete(s.reserves, key)
	if r.held > 0 && r.next <= r.last {
		s.reserves[key] = r
	}
}

// spend forgets the tokens of keys that are released.
func (s *leaseSession) spend(released []driver.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range released {
		delete(s.reserves, h.Key)
	}
}

// handOn makes a holding of this session the next one, under a token of its reserve; 0: it has none, or others wait for the key.
// A request whose answer is lost may still arrive. Until it is known what became of it, it is in s.handing: so Abandon takes the holding
// from it.
func (s *leaseSession) handOn(ctx context.Context, acquisition string, held driver.Held, w driver.Want) (token driver.Token, err error) {
	s.mu.Lock()
	r := s.reserves[held.Key]
	delete(s.reserves, held.Key)
	if r.held != held.Token || s.abandoned.Has(acquisition) {
		s.mu.Unlock()
		return 0, nil
	}
	s.handing[acquisition] = held
	s.mu.Unlock()
	write := s.Tx
	if s.committed {
		write = s.Autocommit
	}
	err = write(ctx, func(t *sqlkit.Tx) error {
		token, err = s.turnInto(t, acquisition, held, w, r.next)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.settled(acquisition)
	if token > 0 {
		s.keep(held.Key, reserve{token, r.next + 1, r.last})
	}
	return token, nil
}

// settled: it is known what became of the requests of an acquisition.
func (s *leaseSession) settled(acquisition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handing, acquisition)
}

// pending is the holding that a request of an acquisition may still make its own.
func (s *leaseSession) pending(acquisition string) (held []driver.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, is := s.handing[acquisition]; is {
		held = append(held, h)
	}
	return held
}

// turnInto makes an exclusive holding of this session, for whose key nobody waits, that of another acquisition; 0: it is no such
// holding, or the session has ended. It is found by its primary key.
func (s *leaseSession) turnInto(t *sqlkit.Tx, acquisition string, held driver.Held, w driver.Want, token driver.Token) (driver.Token, error) {
	n, err := t.Exec(`UPDATE {leases} SET token = ?, acquisition = ?, meta = ?, since = {now}, capacity = ?
		WHERE namespace = ? AND name = ? AND token = ? AND session_id = ? AND shared = 0 AND capacity <= 1 AND waits = 0
			AND EXISTS (SELECT 1 FROM {sessions} s WHERE s.id = ? AND s.dead = 0 AND s.expires_at > {now})`,
		int64(token), acquisition, w.Meta, w.Limit, s.namespace, w.Key, int64(held.Token), s.id, s.id)
	if err != nil || n == 0 {
		return 0, err
	}
	return token, nil
}
