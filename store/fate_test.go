package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	"modernc.org/sqlite/vfs"

	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// fate is the outcome of one statement of many. Its sender gets an error, unless a field states otherwise.
type fate struct {
	name  string
	done  bool // it takes effect
	all   bool // nothing that is sent after it gets through, and the caller gives up
	mute  bool // no answer and no error: the caller gives up
	late  bool // as mute, and it arrives when the caller has given up
	slow  bool // a COMMIT; its sender gives up the line, and it arrives after the statements of another one
	again bool // its error is one that is retried
	half  bool // with again: one row of its answer is read before
}

// lasts reports that the caller does not see the end of it.
func (f fate) lasts() bool { return f.all || f.mute || f.late }

// cut counts the statements that go through it, and one of them meets its fate.
type cut struct {
	mu     sync.Mutex
	fate   fate
	at     int // which one, from 1; 0: none
	seen   int
	lost   []string
	giveUp func()        // called when it is lost
	next   chan struct{} // closed when another statement comes after it
	over   chan struct{} // closed when the caller has given up
	late   int           // connection of what arrives after that
	came   chan struct{} // closed when the server has answered it; nil: nothing arrives late
	lines  lines         // of its senders, where giveUp ends their waits
}

func (c *cut) arm(f fate, at int, giveUp func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fate, c.at, c.giveUp = f, at, giveUp
	c.seen, c.lost, c.next, c.over = 0, nil, make(chan struct{}), make(chan struct{})
	c.late, c.came = 0, nil
}

// disarm lets everything pass, and returns what was lost. What arrives late has taken effect by then.
func (c *cut) disarm() []string {
	c.mu.Lock()
	c.at = 0
	close(c.over)
	lost, came := c.lost, c.came
	c.mu.Unlock()
	if came != nil {
		<-came
	}
	return lost
}

// answers sees what the server answers.
func (c *cut) answers(conn int, up bool, _ []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !up && conn == c.late {
		close(c.came)
		c.late = 0
	}
}

// meets returns the fate of a statement: whether it is lost, and if so, whether it still takes effect.
func (c *cut) meets(text string) (lost bool, f fate, over <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at > 0 && len(c.lost) > 0 && c.next != nil {
		close(c.next)
		c.next = nil
	}
	if c.at == 0 || c.fate.slow && text != "COMMIT" {
		return false, fate{}, nil
	}
	c.seen++
	if c.seen < c.at || c.seen > c.at && !c.fate.all {
		return false, fate{}, nil
	}
	c.lost = append(c.lost, text)
	if c.seen > c.at {
		return true, fate{}, nil
	}
	if c.fate.late {
		c.came = make(chan struct{})
	}
	c.giveUp()
	return true, c.fate, c.over
}

// judge is for an edge to a MySQL server.
func (c *cut) judge(command proxy.Command) proxy.Verdict {
	if command.Query == "" {
		return proxy.Pass
	}
	lost, f, over := c.meets(command.Query)
	switch {
	case !lost:
		return proxy.Pass
	case f.late:
		c.mu.Lock()
		c.late = command.Conn
		c.mu.Unlock()
		<-over
		return proxy.Pass
	case f.slow:
		c.overtake(over)
		return proxy.Pass
	case f.mute:
		return proxy.SwallowReply
	case f.done:
		return proxy.LoseReply
	}
	return proxy.LoseRequest
}

// overtake returns when the line on which a COMMIT came was given up, and something else has come since
// and had time to wait for the rows of its transaction.
func (c *cut) overtake(over <-chan struct{}) {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	for !c.lines.giveUp() { // its sender may not have come to wait yet
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-next:
		time.Sleep(200 * time.Millisecond)
	case <-over:
	}
}

// behindEdge is a store on MySQL whose statements go through a cut, a handle that goes through it too,
// and a store and a handle that do not.
func behindEdge(t *testing.T, f fate) *stage {
	t.Helper()
	c, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	edge, err := proxy.ListenMySQL(c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = edge.Close() })
	s := &stage{t: t, cut: &cut{}, db: rows{openRaw(t, store.MySQL, c.FormatDSN())}}
	s.plain = opened(t, c.FormatDSN())
	if err := s.plain.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	edge.Judge(s.cut.judge)
	edge.Tap(s.cut.answers)
	c.Addr, c.Logger = edge.Addr(), &mysql.NopLogger{}
	c.InterpolateParams = true // one command for a statement
	if f.slow {
		c.Net = s.cut.lines.network(t)
	}
	s.wired = opened(t, c.FormatDSN())
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	s.handle = sql.OpenDB(connector)
	t.Cleanup(func() { _ = s.handle.Close() })
	return s
}

func opened(t *testing.T, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mysql", dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// behindFaultyFile is the same on SQLite: the driver itself returns that a statement failed.
func behindFaultyFile(t *testing.T, _ fate) *stage {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	s := &stage{t: t, cut: &cut{}, db: rows{openRaw(t, store.SQLite, file)}}
	plain, err := store.Open(t.Context(), "sqlite", file, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	if err := plain.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.plain = plain
	s.handle = sql.OpenDB(&faulty{
		Connector: dsnConnector{"file:" + file + "?_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)", s.db.db.Driver()},
		cut:       s.cut, broken: brokenFile(t), busy: busyFile(t),
	})
	t.Cleanup(func() { _ = s.handle.Close() })
	if s.wired, err = store.New(s.handle, store.SQLite, store.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// faulty is a connector to SQLite whose connections lose the statements that the cut names.
type faulty struct {
	driver.Connector
	cut          *cut
	broken, busy error // SQLite's errors
}

func (f *faulty) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	return faultyConn{conn, f}, err
}

type faultyConn struct {
	driver.Conn
	f *faulty
}

func (c faultyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	exec := c.Conn.(driver.ExecerContext).ExecContext
	lost, fate, _ := c.f.cut.meets(text)
	if !lost {
		return exec(ctx, text, args)
	}
	if fate.again {
		return nil, c.f.busy
	}
	if fate.done {
		if _, err := exec(ctx, text, args); err != nil {
			return nil, err
		}
	}
	return nil, c.f.broken
}

func (c faultyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	lost, fate, _ := c.f.cut.meets(text)
	switch {
	case !lost:
		return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
	case fate.again && fate.half:
		rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
		return &halfRows{Rows: rows, then: c.f.busy}, err
	case fate.again:
		return nil, c.f.busy
	}
	return nil, c.f.broken
}

// halfRows end behind the first one with an error.
type halfRows struct {
	driver.Rows
	read bool
	then error
}

func (r *halfRows) Next(dest []driver.Value) error {
	if r.read {
		return r.then
	}
	r.read = true
	return r.Rows.Next(dest)
}

// brokenFile is SQLite's error for a disk that fails.
func brokenFile(t *testing.T) error {
	t.Helper()
	name, files, err := vfs.New(badDisk{fstest.MapFS{"a.db": {Data: make([]byte, 8192)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	db, err := sql.Open("sqlite", "file:a.db?vfs="+name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "SELECT * FROM sqlite_master")
	return coded(t, err, "disk I/O error")
}

// busyFile is its error while another connection writes.
func busyFile(t *testing.T) error {
	t.Helper()
	dsn := filepath.Join(t.TempDir(), "busy.db")
	for range 2 {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			return coded(t, err, "database is locked")
		}
	}
	t.Fatal("two at once")
	return nil
}

// coded holds that err is the driver's own, which the store reads the code of.
func coded(t *testing.T, err error, text string) error {
	t.Helper()
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || !strings.Contains(e.Error(), text) {
		t.Fatalf("%v, want the driver's %q", err, text)
	}
	return err
}

type badDisk struct{ fs.FS }

func (d badDisk) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	return badFile{f}, err
}

type badFile struct{ fs.File }

func (badFile) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

func (f badFile) Seek(offset int64, whence int) (int64, error) {
	return f.File.(interface {
		Seek(offset int64, whence int) (int64, error)
	}).Seek(offset, whence)
}
