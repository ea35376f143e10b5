package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/sqlite"
)

// counting notes which texts its one connection prepares, and which statements are closed.
type counting struct {
	driver.Connector
	prepared map[string]int
	closed   int
}

func (c *counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(sqliteConn), c}, nil
}

type countingConn struct {
	sqliteConn
	counts *counting
}

func (c *countingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.counts.prepared[text]++
	s, err := c.sqliteConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &countingStatement{s.(sqliteStatement), c.counts}, nil
}

type countingStatement struct {
	sqliteStatement
	counts *counting
}

func (s *countingStatement) Close() error {
	s.counts.closed++
	return s.sqliteStatement.Close()
}

func openCounting(t *testing.T) (*sql.DB, *counting, string) {
	path := filepath.Join(t.TempDir(), "db")
	connector, err := sqlite.NewConnector("file:" + path + "?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	counts := &counting{Connector: connector, prepared: map[string]int{}}
	db := sql.OpenDB(preparing{counts, nil})
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	must(t, db, `CREATE TABLE a (n INTEGER PRIMARY KEY)`)
	return db, counts, path
}

func must(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func column(t *testing.T, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, text string, args ...any) (all []int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStatementsArePreparedOnce(t *testing.T) {
	db, counts, path := openCounting(t)
	const insert, read = `INSERT INTO a (n) VALUES (?)`, `SELECT * FROM a WHERE n > ? ORDER BY n`
	for i := range 5 {
		must(t, db, insert, i)
		if got := column(t, db, read, i-2); len(got) != min(i+1, 2) || got[len(got)-1] != i {
			t.Errorf("%d: read %d", i, got)
		}
	}
	if counts.prepared[insert] != 1 || counts.prepared[read] != 1 {
		t.Errorf("prepared %v", counts.prepared)
	}

	// An error leaves nothing behind that the next one with this text meets.
	var code *sqlite.Error
	if _, err := db.Exec(insert, 1); !errors.As(err, &code) {
		t.Errorf("a second row: %v", err)
	}
	must(t, db, insert, 5)
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := db.ExecContext(over, insert, 6); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	must(t, db, insert, 6)

	// A change of the tables changes the rows of a kept statement.
	must(t, db, `DROP TABLE a`)
	must(t, db, `CREATE TABLE a (n TEXT)`)
	must(t, db, insert, 7)
	if got := column(t, db, read, 0); len(got) != 1 || got[0] != 7 {
		t.Errorf("of the new table: %d", got)
	}

	// SQLite closes a connection, and removes the log, only when no statement is left.
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log after Close: %v", err)
	}
	counts.allClosed(t)
}

func (c *counting) allClosed(t *testing.T) {
	t.Helper()
	all := 0
	for _, n := range c.prepared {
		all += n
	}
	if c.closed != all {
		t.Errorf("%d statements were prepared, %d closed", all, c.closed)
	}
}

// Rows that are read while the same text is queried again have their own statement.
func TestStatementsInUseAreNotShared(t *testing.T) {
	db, counts, _ := openCounting(t)
	must(t, db, `INSERT INTO a (n) VALUES (1), (2), (3)`)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const read = `SELECT n FROM a WHERE n >= ? ORDER BY n`
	rows, err := conn.QueryContext(t.Context(), read, 1)
	if err != nil {
		t.Fatal(err)
	}
	var seen []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, n)
		if inner := column(t, conn, read, n); len(inner) != 4-n {
			t.Errorf("inside, from %d: %d", n, inner)
		}
	}
	if err := rows.Close(); err != nil || len(seen) != 3 {
		t.Errorf("outside: %d, %v", seen, err)
	}
	if counts.prepared[read] != 2 {
		t.Errorf("prepared %v", counts.prepared)
	}
	must(t, conn, `DROP TABLE a`) // which open rows would not let pass
	if err := errors.Join(conn.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	counts.allClosed(t)
}

func TestKeptStatementsAreBounded(t *testing.T) {
	db, counts, _ := openCounting(t)
	for i := range 3 * keptStatements {
		column(t, db, fmt.Sprintf(`SELECT n FROM a WHERE n = %d`, i))
	}
	open := -counts.closed
	for _, n := range counts.prepared {
		open += n
	}
	if open != keptStatements {
		t.Errorf("%d statements are kept", open)
	}
	db, counts, _ = openCounting(t) // which keeps none: of too many small ones any may go
	long := func(n int, what string) string { return `SELECT n FROM a -- ` + what + fmt.Sprintf("%0*d", n, 0) }
	one, other := long(keptText, "one"), long(keptText, "other")
	const short = `SELECT 1`
	for _, text := range []string{one, short, one, short, other, short, other, short, one} {
		column(t, db, text)
	}
	if counts.prepared[one] != 2 || counts.prepared[other] != 1 {
		t.Errorf("of large ones the last is not kept alone: %d and %d were prepared", counts.prepared[one], counts.prepared[other])
	}
	exactly := func(n int, what string) string { return long(n-len(long(1, what))+1, what) }
	small, alike := exactly(keptText, "small"), exactly(keptText, "alike")
	for _, text := range []string{small, alike, small, alike} {
		column(t, db, text)
	}
	if len(small) != keptText || counts.prepared[small] != 1 || counts.prepared[alike] != 1 {
		t.Errorf("texts of %d bytes do not count as small: %d and %d were prepared", len(small), counts.prepared[small], counts.prepared[alike])
	}
	for _, text := range []string{one, other, small, alike} { // beside a large one, which they leave alone, and it them
		column(t, db, text)
	}
	if counts.prepared[one] != 2 || counts.prepared[other] != 2 || counts.prepared[small] != 1 || counts.prepared[alike] != 1 {
		t.Errorf("small ones take the place of large ones, or the other way round: %d and %d, %d and %d were prepared",
			counts.prepared[small], counts.prepared[alike], counts.prepared[one], counts.prepared[other])
	}
	large, huge := exactly(largeText, "large"), exactly(largeText+1, "huge")
	for _, text := range []string{large, huge} {
		column(t, db, text)
		must(t, db, text)
	}
	if counts.prepared[large] != 1 {
		t.Errorf("a text of %d bytes was prepared %d times", len(large), counts.prepared[large])
	}
	if counts.prepared[huge] != 0 {
		t.Error("a huge text was kept")
	}
}

// bare is a connector to connections that can do less than those of the driver, or whose statements can.
type bare struct {
	driver.Connector
	statements bool
}

func (b bare) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := b.Connector.Connect(ctx)
	if err != nil || !b.statements {
		return struct{ driver.Conn }{conn}, err
	}
	return bareConn{conn.(sqliteConn)}, nil
}

type bareConn struct{ sqliteConn }

func (c bareConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.sqliteConn.PrepareContext(ctx, text)
	return struct{ driver.Stmt }{s}, err
}

// A driver that cannot keep statements returns an error, and runs none.
func TestDriversThatCannotKeepStatements(t *testing.T) {
	connector, err := sqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]driver.Connector{"connection": bare{connector, false}, "statement": bare{connector, true}} {
		db := sql.OpenDB(preparing{c, nil})
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), `SELECT 1`); err == nil || !strings.Contains(err.Error(), "the SQLite driver's "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
