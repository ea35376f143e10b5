package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
	if err != nil {
		_ = h.opened.Close()
		return nil, fmt.Errorf("%w (sqlite %s)", fullDisk(file, err), path)
	}
	s.opened = h.opened
	if file != "" {
		s.file = newOpenFile(file)
	}
	return s, nil
}

// handles are one connection that writes, one for heartbeats, some that read and some for views, and the turnstile of
// those that write; or one connection for all.
type handles struct {
	writer, reader, vital, views *sql.DB
	turns                        *turnstile
	opened                       closers
}

func sqliteHandles(file string) (h handles, err error) {
	location := "file::memory:"
	if file != "" {
		location = fileURI(file)
	}
	pool := func(conns, cacheKiB int, more ...string) *sql.DB {
		if err != nil {
			return nil
		}
		v := url.Values{"_pragma": append(more,
			"synchronous(FULL)", "foreign_keys(0)", "temp_store(MEMORY)",
			fmt.Sprintf("cache_size(-%d)", cacheKiB), "journal_size_limit(67108864)",
		)}
		var db *sql.DB
		if db, err = sql.Open("sqlite", location+"?"+v.Encode()); err != nil {
			return nil
		}
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
	w, err := openGorm(sqliteDialector{h.writer})
	if err != nil {
		return nil, err
	}
	r, err := openGorm(sqliteDialector{h.reader})
	if err != nil {
		return nil, err
	}
	s, err := build(w, r, sqliteDialect{turns: h.turns}, o)
	if err != nil {
		return nil, err
	}
	if s.vital, err = openGorm(sqliteDialector{h.vital}); err != nil {
		return nil, err
	}
	if s.views, err = openGorm(sqliteDialector{h.views}); err != nil {
		return nil, err
	}
	// WAL is a property of the file, and changing it needs the file alone: once, and not with
	// every connection.
	err = s.autocommit(ctx, "open", func(t *tx) error {
		var mode string
		_, err := t.one("PRAGMA journal_mode=WAL", nil, &mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	// On the handle that writes: the other one is query_only.
	if err := s.autocommit(ctx, "check settings", func(t *tx) error { return s.dialect.check(t, true) }); err != nil {
		return nil, err
	}
	return s, nil
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
	return abs, checkHead(abs, os.O_RDWR|os.O_CREATE)
}

func checkHead(abs string, flag int) error {
	f, err := os.OpenFile(abs, flag, 0o600)
	if err != nil {
		return fmt.Errorf("cannot be opened: %w", err)
	}
	head := make([]byte, len(sqliteHead))
	if n, _ := f.ReadAt(head, 0); n == len(head) && string(head) != sqliteHead {
		_ = f.Close()
		return fmt.Errorf("this file is not a database of SQLite, or an encrypted one; name another file, or move it away to begin with an empty database")
	}
	return f.Close()
}

// sqliteHead is how each database begins that something was written to.
const sqliteHead = "SQLite format 3\x00"

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
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return "", fmt.Errorf("this is a folder, not a file")
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
