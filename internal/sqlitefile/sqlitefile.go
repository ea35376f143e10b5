// Package sqlitefile connects package store with package store/sqlite: store works with a SQLite file that
// store/sqlite has opened, and does not link SQLite.
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

// Database is an open file, or database in memory.
type Database interface {
	Pools() Pools
	// Hold keeps the file and its log open until Close: SQLite removes a log when the last connection of all
	// processes closes. It fails with jobs.ErrUnavailable if the file cannot be read now, or not before ctx is over.
	Hold(ctx context.Context) error
	// Holds returns an error, jobs.ErrUnavailable, if the path names another file now.
	Holds() error
	// Explain adds to an error of a full disk which disk it is.
	Explain(err error) error
	// Room is an error if the disk is full.
	Room() error
	io.Closer
}

// Pools are the connections of a database; some may be the same.
type Pools struct {
	Writer, Reader *sql.DB
	Vital, Views   *sql.DB      // used by nothing else: for heartbeats, and for lists
	Turns          sqlkit.Turns // of writers
	Ends           sqlkit.Ends  // of their transactions
	Log            string       // the write-ahead log; empty: a database in memory
}

// Opener is package store/sqlite.
type Opener interface {
	// Open opens a file, which it may create, or ":memory:", with so many connections for views.
	Open(path string, views int) (Database, error)
	// Look opens a file for reading.
	Look(path string) (Database, error)
}

var registered Opener

// Register is called by the init of package store/sqlite.
func Register(o Opener) { registered = o }

// Registered is the opener, or an error with the import that is missing.
func Registered() (Opener, error) {
	if registered == nil {
		return nil, errors.New(`SQLite is not part of this program: import _ "github.com/lockstep-scheduler/lockstep/store/sqlite"`)
	}
	return registered, nil
}

// MostLog is the size of a write-ahead log above which views are held back. SQLite truncates a log to it when
// it starts again, so a larger one has not started again since.
const MostLog = 64 << 20

// LogOf is the path of the log of a database: beside the file that a link leads to, whether that exists or not.
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
