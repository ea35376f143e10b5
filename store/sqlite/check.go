package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
)

// Look opens an existing file to read it.
func (opener) Look(path string) (sqlitefile.Database, error) {
	abs, err := checkPlace(path)
	if err == nil {
		_, err = writeVersion(abs)
	}
	if err != nil {
		return nil, err
	}
	v := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(250)", "query_only(1)", "temp_store(MEMORY)"}}
	_, err = os.Stat(sqlitefile.LogOf(abs))
	logged := !errors.Is(err, fs.ErrNotExist)
	if !logged {
		v.Set("immutable", "1") // else SQLite would make one, and leave it
	}
	db, err := sql.Open("sqlite", fileURI(abs)+"?"+v.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	return &database{
		pools: sqlitefile.Pools{Writer: db, Reader: db, Vital: db, Views: db}, keeper: db,
		file: &openFile{path: abs}, logged: logged, opened: []io.Closer{db},
	}, nil
}

// Check refuses a path that store.Open would refuse for its place or for a file beside it, and a folder without room. It makes no
// database; see ledger.Admin.CheckRights for what it tries.
func Check(path string) error {
	abs, err := checkPlace(path)
	if err == nil {
		err = tryToWrite(abs)
	}
	if err != nil {
		return fmt.Errorf("store: sqlite %s: %w", path, err)
	}
	return nil
}

// triedSize is how much must fit on the disk of a database: less fills up within minutes.
const triedSize = 1 << 20

// tryToWrite writes a file beside the database, and removes it. The database itself is not opened: closing it
// would release the locks that SQLite has on it in this process.
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
