package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

type opener struct{}

func init() { sqlitefile.Register(opener{}) }

// Open opens a file, or a database in memory, for tests.
func (opener) Open(path string, views int) (sqlitefile.Database, error) {
	if path == ":memory:" {
		return open("", views)
	}
	abs, err := checkFile(path)
	if err != nil {
		return nil, err
	}
	return open(abs, views)
}

// database is one connection that writes, one for heartbeats, some that read, some for views, one that keeps the file open, and
// the queue of writers; or one connection for all.
type database struct {
	pools  sqlitefile.Pools
	keeper *sql.DB   // of the one that does nothing; nil: in memory
	file   *openFile // nil: in memory
	logged bool
	opened []io.Closer
}

func (d *database) Pools() sqlitefile.Pools { return d.pools }

func (d *database) Hold(ctx context.Context) error {
	if d.file == nil {
		return nil
	}
	held, err := holdOpen(ctx, d.keeper)
	if db := (&sqlkit.DB{Dialect: sqlkit.SQLite{}}); db.Fault(ctx, err) != sqlkit.FaultNone { // not in time, for example
		err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	if err != nil {
		return err
	}
	d.opened = append([]io.Closer{held}, d.opened...)
	d.file.opened(d.logged)
	return nil
}

func (d *database) Holds() error { return d.file.holds() }

func (d *database) Explain(err error) error { return d.file.full(err) }

func (d *database) Room() error {
	if d.file == nil {
		return nil
	}
	return tryToWrite(d.file.path)
}

func (d *database) Close() error {
	var errs []error
	for _, each := range d.opened {
		errs = append(errs, each.Close())
	}
	return errors.Join(errs...)
}

func open(file string, views int) (_ sqlitefile.Database, err error) {
	d := &database{logged: true}
	location := "file::memory:"
	v := url.Values{}
	if file != "" {
		location = fileURI(file)
		v.Set("mode", "rw") // it exists
		d.file = &openFile{path: file}
	}
	pool := func(conns, cacheKiB int, more ...string) *sql.DB {
		if err != nil {
			return nil
		}
		v["_pragma"] = append(more,
			"synchronous(FULL)", "foreign_keys(0)", "temp_store(MEMORY)",
			fmt.Sprintf("cache_size(-%d)", cacheKiB), fmt.Sprintf("journal_size_limit(%d)", sqlitefile.MostLog),
		)
		var connector driver.Connector
		if connector, err = sqlite.NewConnector(location + "?" + v.Encode()); err != nil {
			return nil
		}
		db := sql.OpenDB(preparing{connector, d.file})
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		d.opened = append(d.opened, db)
		return db
	}
	// No busy timeout for writers: the pauses of SQLite's own wait grow, and it ends neither with ctx nor with the transaction that it waits for.
	p := &d.pools
	p.Writer = pool(1, 16000, "busy_timeout(0)")
	p.Reader, p.Vital, p.Views = p.Writer, p.Writer, p.Writer
	if file != "" {
		p.Reader = pool(4, 16000, "busy_timeout(250)", "query_only(1)")
		p.Views = pool(views, 4000, "busy_timeout(250)", "query_only(1)")
		// A beat waits for the file's write lock, and not for this process's one writer before that.
		p.Vital = pool(1, 16000, "busy_timeout(0)")
		d.keeper = pool(1, 100, "busy_timeout(250)", "query_only(1)")
		p.Log = sqlitefile.LogOf(file)
		err = errors.Join(err, d.takeTurns(file))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *database) takeTurns(file string) error {
	turns, err := openWriterQueue(file)
	if err != nil {
		return err
	}
	shared := shareEnds(file)
	d.pools.Turns, d.pools.Ends = turns, shared.Ends
	d.opened = append(d.opened, turns, shared)
	return turns.remember(file)
}

// holdOpen takes a connection, which keeps the file and its log open until it is closed, and does no work. Those that work
// are opened and closed, and SQLite removes the log when the last one closes.
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
	if err := create(abs); err != nil {
		return "", err
	}
	if err := mayWrite(abs); err != nil {
		return "", fmt.Errorf("cannot be opened: %w", err)
	}
	_, err = writeVersion(abs)
	return abs, err
}

// checkPlace is the part of checkFile that works without the file.
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
	case err != nil: // opening it reports the error, or makes the file
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
	if err := localFolder(folder); err != nil {
		return "", err
	}
	return abs, checkLog(abs)
}

func fileURI(abs string) string {
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath()
}
