package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// open opens a file, or a database in memory, for tests.
func (sqliteServer) open(ctx context.Context, path string, o Options) (*Store, error) {
	opener, err := sqlitefile.Registered()
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	file, err := opener.Open(path, viewConns)
	if err != nil {
		return nil, fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	s, err := assembleSQLite(ctx, file, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w (sqlite %s)", file.Explain(err), path), file.Close())
	}
	return s, nil
}

func assembleSQLite(ctx context.Context, file sqlitefile.Database, o Options) (*Store, error) {
	s, err := ofFile(file, o)
	if err != nil {
		return nil, err
	}
	// WAL is a property of the file, and changing it needs the file alone: once, and not with
	// every connection.
	err = s.autocommit(ctx, "open", func(t *tx) error {
		var mode string
		_, err := t.One("PRAGMA journal_mode=WAL", nil, &mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The handle that writes is used: the other one is query_only.
	if err := s.autocommit(ctx, "check settings", sqliteServer{}.check); err != nil {
		return nil, err
	}
	if err := s.do("open", func() error { return file.Hold(ctx) }); err != nil {
		return nil, err
	}
	if p := file.Pools(); p.Log != "" {
		s.gate = newLogGate(p.Log, s.db.Timeout, p.Turns)
	}
	return s, nil
}

// ofFile is a store in a database that was opened, and closes it.
func ofFile(file sqlitefile.Database, o Options) (*Store, error) {
	p := file.Pools()
	s, err := build(p.Writer, p.Reader, sqlkit.SQLite{Turns: p.Turns, Ends: p.Ends}, o)
	if err != nil {
		return nil, err
	}
	s.vital, s.views = p.Vital, p.Views
	s.file, s.opened, s.db.Holds = file, closers{file}, file.Holds
	return s, nil
}

// OpenReadOnly opens an existing SQLite file to read it, also beside replicas that use it. Neither the database nor its
// write-ahead log is changed, and nothing is moved from the one to the other. Calls that would write fail. SQLite may make the
// index of a log (-shm) where that is missing. OpenReadOnly refuses what [Open] refuses.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opener, err := sqlitefile.Registered()
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	file, err := opener.Look(path)
	if err != nil {
		return nil, fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	s, err := looker(ctx, file, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: sqlite %s: %w", path, err), file.Close())
	}
	return s, nil
}

func looker(ctx context.Context, file sqlitefile.Database, o Options) (*Store, error) {
	s, err := ofFile(file, o)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, "open", func(t *tx) error {
		_, err := t.hasMigrations()
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, file.Hold(ctx)
}
