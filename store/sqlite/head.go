package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// walVersion is the write version of a database with a write-ahead log. A copy made by VACUUM INTO has another one until it
// is opened.
const walVersion = 2

// writeVersion reads the write version from the head of a database; 0 if the file is empty. A file that is no database is
// refused. It reads by SQLite, without the log.
//
// A file that may be a database in use is opened by SQLite alone. A process that closes a file releases all locks that it has
// on it, however they were taken (POSIX). SQLite allows for that, and delays its own close. After any other close it would rely
// on locks that no longer exist, and the next process that closes the database would remove the log of this one.
func writeVersion(path string) (byte, error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	if err := mayRead(path); err != nil {
		return 0, fmt.Errorf("cannot be opened: %w", err)
	}
	db, err := sql.Open("sqlite", fileURI(path)+"?mode=ro&immutable=1")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var version []byte
	err = db.QueryRow("SELECT substr(data, 19, 1) FROM sqlite_dbpage WHERE pgno = 1").Scan(&version)
	switch {
	case err == nil && len(version) == 1:
		return version[0], nil
	case sqlkit.SQLiteCode(err) == lib.SQLITE_CORRUPT: // the rest of it may be in its log
		return walVersion, nil
	case sqlkit.SQLiteCode(err) == lib.SQLITE_NOTADB:
		return 0, errors.New("this file is not a database of SQLite, or an encrypted one; name another file, or move it away to begin with an empty database")
	}
	return 0, fmt.Errorf("cannot be read: %w", err)
}

// creating locks other stores of this process out of a file until it was closed here, see writeVersion.
var creating sync.Mutex

// create makes an empty file that only its owner may read, unless there is one.
func create(path string) error {
	creating.Lock()
	defer creating.Unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot be opened: %w", err)
	}
	return f.Close()
}
