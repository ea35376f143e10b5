package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
)

// identity tells a file from others that have had its name: its inode and the time it was made. The zero identity means
// that the system does not report them.
type identity [16]byte

// identityAt is where the -turn file has the identity of the database that was opened last, behind the count of turns.
const identityAt = 8

// checkLog refuses a write-ahead log that is not the one of the database at abs. It is called before SQLite opens
// either: SQLite would write the log over the database, or empty it. A log without content belongs to any database.
func checkLog(abs string) error {
	logPath := sqlitefile.LogOf(abs)
	path := strings.TrimSuffix(logPath, "-wal")
	log, err := os.Stat(logPath) // before the database, which another process makes before its log
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	version, err := writeVersion(path)
	name := filepath.Base(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%[1]s-wal is here without %[1]s: the database was deleted or moved away while it was in use; "+
			"stop all replicas, then restore it (%[2]s), or remove %[1]s-wal and %[1]s-shm to begin anew", name, restoring(name))
	case err != nil:
		return err
	case log.Size() == 0:
		return nil
	case version == 0:
		return fmt.Errorf("%[1]s is empty, and %[1]s-wal is not: the database was emptied or replaced while it was in use; "+
			"stop all replicas, then restore it (%[2]s), or remove %[1]s, %[1]s-wal and %[1]s-shm to begin anew", name, restoring(name))
	case version != walVersion:
		return fmt.Errorf("%[1]s-wal is the log of another database: %[1]s has never had one; "+
			"if %[1]s is a backup, stop all replicas and remove %[1]s-wal and %[1]s-shm", name)
	}
	now, err := identify(path)
	if err != nil {
		return err
	}
	var known identity
	turn, err := os.Open(abs + "-turn")
	if err == nil {
		_, err = turn.ReadAt(known[:], identityAt)
		_ = turn.Close()
	}
	if err != nil || known == (identity{}) || now == (identity{}) || now == known {
		return nil // no identity was written before
	}
	return fmt.Errorf("%[1]s is not the file that was open when %[1]s-wal was written, and would be overwritten with what that holds: "+
		"if %[1]s is a backup, stop all replicas and remove %[1]s-wal and %[1]s-shm; "+
		"if %[1]s and %[1]s-wal were copied or moved here together, remove %[2]s", name, filepath.Base(abs)+"-turn")
}

// restoring is how to put a database in its place.
func restoring(name string) string {
	return fmt.Sprintf("put the file back as it was, or a backup in its place and remove %[1]s-wal and %[1]s-shm", name)
}

// remember writes which database was opened, for the next checkLog. It is on the disk before the log has content: a
// power loss must not leave the identity of an earlier database beside the log of this one.
func (q *writerQueue) remember(database string) error {
	now, err := identify(database)
	if err != nil {
		return err
	}
	var known identity
	if _, err := q.file.ReadAt(known[:], identityAt); err == nil && known == now {
		return nil
	}
	if _, err := q.file.WriteAt(now[:], identityAt); err != nil {
		return fmt.Errorf("which database was opened cannot be written: %w", err)
	}
	return q.file.Sync()
}
