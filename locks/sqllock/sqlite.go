package sqllock

import (
	"context"
	"os"
	"sync"
	"time"

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
		s.watch = watchFiles(file, file+"-wal")
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

// watchFiles reports whether one of the files was written since it was asked last. It opens none of them: to close a file
// gives up the locks that SQLite has on it in this process.
func watchFiles(names ...string) func() bool {
	type state struct {
		size int64
		at   time.Time
	}
	last := make([]state, len(names))
	return func() (written bool) {
		for i, name := range names {
			now := state{size: -1}
			if info, err := os.Stat(name); err == nil {
				now = state{info.Size(), info.ModTime()}
			}
			if now != last[i] {
				last[i], written = now, true
			}
		}
		return written
	}
}
