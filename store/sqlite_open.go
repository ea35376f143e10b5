package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// openSQLite opens a file, or a database in memory, for tests.
func openSQLite(ctx context.Context, path string, o Options) (*Store, error) {
	file := "" // in memory
	if path != ":memory:" {
		abs, err := checkFile(path)
		if err != nil {
			return nil, fmt.Errorf("store: sqlite %s: %w", path, err)
		}
		file = abs
	}
	h, err := sqliteHandles(file)
	if err != nil {
		return nil, fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	s, err := assembleSQLite(ctx, h, o)
	var held *sql.Conn
	if err == nil && file != "" {
		held, err = holdOpen(ctx, h.keeper)
	}
	if err != nil {
		_ = h.opened.Close()
		return nil, fmt.Errorf("%w (sqlite %s)", fullDisk(file, err), path)
	}
	s.opened = h.opened
	if file != "" {
		s.db.Holds = h.file.holds
		s.opened = append(closers{held}, h.opened...)
		s.file = h.file
		s.file.opened(true)
		s.gate = newLogGate(logOf(file), s.db.Timeout, h.turns)
	}
	return s, nil
}

// handles are one connection that writes, one for heartbeats, some that read, some for views, one that does nothing, and
// the turnstile of those that write; or one connection for all.
type handles struct {
	writer, reader, vital, views *sql.DB
	keeper                       *sql.DB
	file                         *openFile
	turns                        *turnstile
	opened                       closers
}

func sqliteHandles(file string) (h handles, err error) {
	location := "file::memory:"
	v := url.Values{}
	if file != "" {
		location = fileURI(file)
		v.Set("mode", "rw") // it is there
		h.file = &openFile{path: file}
	}
	pool := func(conns, cacheKiB int, more ...string) *sql.DB {
		if err != nil {
			return nil
		}
		v["_pragma"] = append(more,
			"synchronous(FULL)", "foreign_keys(0)", "temp_store(MEMORY)",
			fmt.Sprintf("cache_size(-%d)", cacheKiB), fmt.Sprintf("journal_size_limit(%d)", mostLog),
		)
		var connector driver.Connector
		if connector, err = sqlite.NewConnector(location + "?" + v.Encode()); err != nil {
			return nil
		}
		db := sql.OpenDB(preparing{connector, h.file})
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		h.opened = append(h.opened, db)
		return db
	}
	// Next to none for who writes, since SQLite's own wait naps longer and longer and does not see ctx.
	h.writer = pool(1, 16000, "busy_timeout(1)")
	h.reader, h.vital, h.views = h.writer, h.writer, h.writer
	if file != "" {
		h.reader = pool(4, 16000, "busy_timeout(250)", "query_only(1)")
		h.views = pool(viewConns, 4000, "busy_timeout(250)", "query_only(1)")
		// A beat waits for the file's write lock, and not for this process's one writer before that.
		h.vital = pool(1, 16000, "busy_timeout(1)")
		h.keeper = pool(1, 100, "busy_timeout(250)", "query_only(1)")
		if err == nil {
			h.turns, err = openTurnstile(file)
		}
		if err == nil {
			h.opened = append(h.opened, h.turns)
			err = h.turns.remember(file)
		}
	}
	if err != nil {
		_ = h.opened.Close()
	}
	return h, err
}

func assembleSQLite(ctx context.Context, h handles, o Options) (*Store, error) {
	s, err := build(h.writer, h.reader, sqlkit.SQLite{Turns: h.turns}, o)
	if err != nil {
		return nil, err
	}
	s.vital, s.views = h.vital, h.views
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
	// On the handle that writes: the other one is query_only.
	if err := s.autocommit(ctx, "check settings", sqliteServer{}.check); err != nil {
		return nil, err
	}
	return s, nil
}

// holdOpen takes a connection, which has the file and its log open until it is closed, and does no work. Those that work
// come and go: SQLite removes the log when the last one closes.
func holdOpen(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var tables int
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(&tables); err != nil { // opens the log
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkFile refuses what SQLite would fail on later, or corrupt, and returns the absolute path.
func checkFile(path string) (string, error) {
	abs, err := checkPlace(path)
	if err != nil {
		return "", err
	}
	if err := checkLog(abs); err != nil {
		return "", err
	}
	if err := create(abs); err != nil {
		return "", err
	}
	if err := mayWrite(abs); err != nil {
		return "", fmt.Errorf("cannot be opened: %w", err)
	}
	_, err = writeVersion(abs)
	return abs, err
}

// checkPlace is checkFile as far as it can be told without the file.
func checkPlace(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("no path")
	}
	if strings.HasPrefix(path, "file:") || strings.Contains(path, "?") {
		return "", fmt.Errorf("a plain path is wanted, without file: and options")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	switch info, err := os.Stat(abs); {
	case err != nil: // which whoever opens it says, or makes it
	case info.IsDir():
		return "", fmt.Errorf("this is a folder, not a file")
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("this is not a regular file")
	}
	folder := filepath.Dir(abs)
	if info, err := os.Stat(folder); err != nil {
		return "", fmt.Errorf("its folder: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder", folder)
	}
	return abs, localFolder(folder)
}

func fileURI(abs string) string {
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath()
}
