package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// openFile is a SQLite file as it was opened. A file that was deleted or replaced can be read and written as before, and all
// writes to it are lost: a process that opens the name later gets another file. The same holds for its write-ahead log, which
// exists as long as a process has the file open.
type openFile struct {
	path string

	mu      sync.Mutex
	isOpen  bool        // else nothing is known
	file    os.FileInfo // that was opened
	logPath string      // empty: it was opened to be read without one
	log     os.FileInfo // nil: not seen yet
}

// opened is called when the file is open, and its log if logged. Both must stay open until the store is closed: SQLite
// removes a log when the last connection of all processes closes.
func (f *openFile) opened(logged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isOpen = true
	f.file, _ = os.Stat(f.path) // nil is no file's
	if logged {
		f.logPath = sqlitefile.LogOf(f.path)
		f.log, _ = os.Stat(f.logPath)
	}
}

// holds returns an error, jobs.ErrUnavailable, as long as the names do not lead to the opened files. A nil openFile always holds.
func (f *openFile) holds() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isOpen {
		return nil
	}
	if now, err := os.Stat(f.path); err != nil || !os.SameFile(f.file, now) {
		return f.lost(f.path)
	}
	if f.logPath == "" {
		return nil
	}
	switch now, err := os.Stat(f.logPath); {
	case err == nil && f.log == nil:
		f.log = now
	case f.log != nil && (err != nil || !os.SameFile(f.log, now)):
		return f.lost(f.logPath)
	}
	return nil
}

func (f *openFile) lost(name string) error {
	return fmt.Errorf("%w: %s was deleted or replaced while it is open, so nothing is started or taken here: "+
		"stop all replicas, %s, and start them", jobs.ErrUnavailable, name, restoring(filepath.Base(f.path)))
}

// full adds the disk to SQLite's error of a full disk. A nil openFile adds nothing.
func (f *openFile) full(err error) error {
	if f == nil {
		return err
	}
	return fullDisk(f.path, err)
}

func fullDisk(path string, err error) error {
	if sqlkit.SQLiteCode(err) != lib.SQLITE_FULL {
		return err
	}
	return fmt.Errorf("%s cannot grow, make room on its disk: %w", path, err)
}
