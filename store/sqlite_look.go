package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// OpenReadOnly opens a SQLite file that is there, to look at it also beside replicas that use it. Neither the database nor its
// write-ahead log is changed, and nothing is moved from the one to the other; what would write fails. SQLite may make the
// index of a log (-shm) where that is missing. It refuses what [Open] refuses.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := lookAtSQLite(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	return s, nil
}

func lookAtSQLite(ctx context.Context, path string, o Options) (*Store, error) {
	abs, err := checkPlace(path)
	if err == nil {
		err = checkLog(abs)
	}
	if err == nil {
		_, err = writeVersion(abs)
	}
	if err != nil {
		return nil, err
	}
	v := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(250)", "query_only(1)", "temp_store(MEMORY)"}}
	_, err = os.Stat(logOf(abs))
	logged := !errors.Is(err, fs.ErrNotExist)
	if !logged {
		v.Set("immutable", "1") // else SQLite would make one, and leave it there
	}
	db, err := sql.Open("sqlite", fileURI(abs)+"?"+v.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	s, err := looker(ctx, db, o)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	held, err := holdOpen(ctx, db)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s.opened, s.file = closers{held, db}, &openFile{path: abs}
	s.file.opened(logged)
	s.db.Holds = s.file.holds
	return s, nil
}

func looker(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	s, err := build(db, db, sqlkit.SQLite{}, o)
	if err != nil {
		return nil, err
	}
	return s, s.read(ctx, "open", func(t *tx) error {
		_, err := t.hasMigrations()
		return err
	})
}

// CheckSQLite refuses a path that [Open] would refuse for where it is or for what lies beside it, and a folder that takes no
// more. It makes no database; see [Store.CheckRights] for what it tries.
func CheckSQLite(path string) error {
	abs, err := checkPlace(path)
	if err == nil {
		err = checkLog(abs)
	}
	if err == nil {
		err = tryToWrite(abs)
	}
	if err != nil {
		return fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	return nil
}

// triedSize is how much must fit on the disk of a database: less is gone within minutes.
const triedSize = 1 << 20

// tryToWrite writes a file beside the database, and removes it. The database itself is not opened: to close it
// would give up the locks that SQLite has on it in this process.
func tryToWrite(abs string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-turn"} {
		if err := mayWrite(abs + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cannot be written: %w", abs+suffix, err)
		}
	}
	folder := filepath.Dir(abs)
	f, err := os.CreateTemp(folder, "."+filepath.Base(abs)+"-try-*")
	if err != nil {
		return noRoom(fmt.Errorf("no files can be made in %s: %w", folder, err))
	}
	_, err = f.Write(make([]byte, triedSize))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return noRoom(fmt.Errorf("nothing can be written in %s: %w", folder, err))
	}
	return nil
}
