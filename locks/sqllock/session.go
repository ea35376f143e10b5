package sqllock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session runs the statements of one session, in either mode. A deadlock, a lock timeout or a busy file is retried until
// the context ends: the statement had no effect.
type session struct {
	*sqlkit.DB
	dialect   dialect
	namespace string
	id        string
	owner     string
	ttl       time.Duration
	file      *sqliteFile
	view      func(ctx context.Context, look func(t *sqlkit.Tx) error) error // mode row: reads what is not committed
}

func (s *session) ID() string         { return s.id }
func (s *session) TTL() time.Duration { return s.ttl }

func (s *session) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = s.dialect.write(ctx, s.DB, func(t *sqlkit.Tx) error {
		rows, err = t.Exec(statement, args...)
		return err
	})
	return rows, err
}

// mint takes n tokens and returns the first of them. A caller that does not hold the key yet mints in the
// transaction that takes it: else a smaller token could be granted after a larger one.
func (s *session) mint(t *sqlkit.Tx, n int) (driver.Token, error) {
	last, err := s.dialect.mint(t, s.namespace, n)
	if err == nil && last == 0 {
		err = fmt.Errorf("the token counter of namespace %s is missing from the table", s.namespace)
	}
	return driver.Token(last) - driver.Token(n) + 1, err
}

// names returns one column of text.
func names(t *sqlkit.Tx, statement string, args ...any) (map[string]bool, error) {
	found := map[string]bool{}
	err := t.Query(statement, args, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		found[name] = true
		return err
	})
	return found, err
}

// names is the function on a connection of its own.
func (s *session) names(ctx context.Context, statement string, args ...any) (found map[string]bool, err error) {
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		found, err = names(t, statement, args...)
		return err
	})
	return found, err
}
