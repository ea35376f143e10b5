package sqllock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	if err == nil {
		err = s.file.opened(file, s.Pool.Stats().MaxOpenConnections)
	}
	if err == nil && file != "" {
		s.watch = filewatch.Written(file, file+"-wal")
		s.Dialect = sqlkit.SQLite{Turns: turnsOf(file), Eager: true}
	}
	return err
}

// sqliteFile is the file that a handle has open, as the first session found it. Once it was deleted or replaced, others lock in another
// one, and nothing that is held here excludes them.
type sqliteFile struct {
	mu   sync.Mutex
	path string
	was  os.FileInfo // nil: no session was open yet
}

// opened notes the file, or compares it. A database in memory is another one for each connection.
func (f *sqliteFile) opened(path string, connections int) error {
	if path == "" {
		if connections != 1 {
			return errors.New("the database has no file: each connection of the handle has one of its own, so nothing is excluded; give it the path of a file")
		}
		return nil
	}
	f.mu.Lock()
	if f.was == nil {
		info, err := os.Stat(path)
		if err != nil {
			f.mu.Unlock()
			return err
		}
		f.path, f.was = path, info
	}
	f.mu.Unlock()
	return f.holds()
}

// holds returns an error once the file was deleted or replaced.
func (f *sqliteFile) holds() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.was == nil {
		return nil
	}
	if now, err := os.Stat(f.path); err == nil && os.SameFile(f.was, now) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s was deleted or replaced: others lock in another file; open the handle anew", f.path)
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
