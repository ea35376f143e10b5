// Package sqlitefile is what package store and package store/sqlite know of each other: the one works with a SQLite file that
// the other has opened, and links no SQLite.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Database is a file, or a database in memory, that was opened.
type Database interface {
	Pools() Pools
	// Hold keeps the file and its log open until Close: SQLite removes a log when the last connection of all processes closes.
	Hold(ctx context.Context) error
	// Holds returns an error, jobs.ErrUnavailable, if what is held is not what has the name now.
	Holds() error
	// Explain adds to what SQLite says of a full disk which one that is.
	Explain(err error) error
	// Room is an error if the disk takes no more.
	Room() error
	io.Closer
}

// Pools are the connections of a database; some may be the same.
type Pools struct {
	Writer, Reader *sql.DB
	Vital, Views   *sql.DB      // which no other work takes: for heartbeats, and for what people look at
	Turns          sqlkit.Turns // of those that write
	Log            string       // the write-ahead log; empty: of a database in memory
}

// Opener is package store/sqlite.
type Opener interface {
	// Open opens a file, which it may create, or ":memory:", with so many connections for views.
	Open(path string, views int) (Database, error)
	// Look opens a file to read it.
	Look(path string) (Database, error)
}

var registered Opener

// Register is called by the init of package store/sqlite.
func Register(o Opener) { registered = o }

// Registered is the opener, or an error that says what to import.
func Registered() (Opener, error) {
	if registered == nil {
		return nil, errors.New(`SQLite is not part of this program: import _ "github.com/lockstep-scheduler/lockstep/store/sqlite"`)
	}
	return registered, nil
}

// MostLog is the size of a write-ahead log above which views are held back. It is what SQLite leaves of a log that begins
// again, so that a larger one has not begun again since.
const MostLog = 64 << 20

// LogOf is where SQLite has the log of a database: beside the file that a link leads to, whether that is there or not.
func LogOf(path string) string {
	for range 100 { // SQLite follows no more
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			folder, _ := filepath.Split(path)
			target = folder + target
		}
		path = target
	}
	return path + "-wal"
}
