package sqllock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The tokens of mode row are numbers of AUTO_INCREMENT, which the server keeps in memory: a transaction that is undone does not
// give them back, and none is written to its disk for each grant. A server that crashed may begin again with smaller ones. So
// the mark of the namespace, which is committed, is ahead of all that were granted, and each session moves the counter to
// the mark before it is granted anything: sessions do not outlive the server.

// ahead is by how much the mark is raised: so many grants cost one commit.
const ahead = 10_000

// raise raises the mark, and moves the counter to where it was.
func (s *rowSession) raise(ctx context.Context) error {
	if err := s.extend(ctx); err != nil {
		return err
	}
	s.first = s.ceiling.Load() - ahead
	_, err := s.With(ctx, s.anchor).Exec(`INSERT INTO {holds} (token, namespace, name, session_id, acquisition, owner, meta, since, connection)
		VALUES (?, ?, '', '', '', '', '', 0, 0)`, s.first, s.namespace)
	if n := sqlkit.MySQLNumber(err); n == duplicate || n == lockTimeout { // it is there already
		err = nil
	}
	if err != nil {
		return err
	}
	return run(ctx, s.anchor, "ROLLBACK")
}

const (
	duplicate   = 1062
	lockTimeout = 1205
)

// extend raises the mark.
func (s *rowSession) extend(ctx context.Context) error {
	return s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		next, err := s.mint(t, ahead)
		if err == nil {
			s.ceiling.Store(int64(next) - 1 + ahead)
		}
		return err
	})
}

// seen reads the mark.
func (s *rowSession) seen(t *sqlkit.Tx) error {
	var mark int64
	_, err := t.One(`SELECT token FROM {marks} WHERE namespace = ?{share}`, []any{s.namespace}, &mark)
	if err == nil && mark > s.ceiling.Load() {
		s.ceiling.Store(mark)
	}
	return err
}

// minted is the token of a hold that was inserted, once the mark is larger; 0 if none was inserted.
func (s *rowSession) minted(ctx context.Context, inserted sql.Result) (driver.Token, error) {
	if written, err := inserted.RowsAffected(); err != nil || written == 0 {
		return 0, err
	}
	token, err := inserted.LastInsertId()
	if err != nil {
		return 0, err
	}
	if token <= s.first { // by hand: the next session moves it again
		s.end()
		return 0, fmt.Errorf("%w: the counter of tokens was set back to %d", driver.ErrSessionEnded, token)
	}
	if token >= s.ceiling.Load() { // another session may have raised it
		if err := s.Autocommit(ctx, s.seen); err != nil {
			return 0, err
		}
	}
	for token >= s.ceiling.Load() {
		if err := s.extend(ctx); err != nil {
			return 0, err
		}
	}
	return driver.Token(token), nil
}
