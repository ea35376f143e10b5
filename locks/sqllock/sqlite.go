package sqllock

import (
	"context"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/filewatch"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

func mintSQLite(t *sqlkit.Tx, namespace string, n int) (last int64, err error) {
	_, err = t.One(`UPDATE {marks} SET token = MAX(token, {now}) + ? WHERE namespace = ? RETURNING token`, []any{n, namespace}, &last)
	return last, err
}

// writeSQLite takes a turn, as all writers do: a renewal must not lose for long against later writers.
func writeSQLite(ctx context.Context, db *sqlkit.DB, once func(t *sqlkit.Tx) error) error {
	return db.Tx(ctx, once)
}

// settleSQLite finds the files that a write changes.
func settleSQLite(ctx context.Context, s *leaseSession) error {
	var file string
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		return t.Query(`PRAGMA database_list`, nil, func(scan func(...any) error) error {
			var number int
			var name, path string
			err := scan(&number, &name, &path)
			if name == "main" {
				file = path
			}
			return err
		})
	})
	if err == nil && file != "" {
		s.watch = filewatch.Written(file, file+"-wal")
		s.Dialect = sqlkit.SQLite{Turns: turnsOf(file), Eager: true}
	}
	return err
}

// turns let in one writer of this process after the other, in the order in which they come.
type turns chan struct{}

var files sync.Map // turns, by the path

func turnsOf(file string) turns {
	all, _ := files.LoadOrStore(file, make(turns, 1))
	return all.(turns)
}

func (t turns) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
