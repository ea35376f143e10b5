package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// coded is an error as a driver of SQLite has them.
type coded int

func (c coded) Error() string { return fmt.Sprint("code ", int(c)) }
func (c coded) Code() int     { return int(c) }

// What is run again: what the database undid, always; what a connection was lost for, where that is asked for; and what was
// never sent, a few times.
func TestWhatIsRepeated(t *testing.T) {
	const last = 20
	for name, c := range map[string]struct {
		dialect     Dialect
		reconnect   bool
		comes       error // of each try but the last
		tries       int
		unavailable bool
	}{
		"nothing bad":                     {comes: nil, tries: 1},
		"an answer":                       {comes: errors.New("no"), tries: 1},
		"a busy file":                     {comes: coded(sqliteBusy), tries: last},
		"a busy file, in detail":          {comes: coded(sqliteBusySnapshot), tries: last},
		"a full disk":                     {comes: coded(sqliteFull), tries: 1, unavailable: true},
		"a lost connection":               {dialect: MySQL{}, comes: io.ErrUnexpectedEOF, tries: 1, unavailable: true},
		"a lost connection, reconnecting": {dialect: MySQL{}, reconnect: true, comes: io.ErrUnexpectedEOF, tries: last},
		"dead connections":                {dialect: MySQL{}, comes: driver.ErrBadConn, tries: DeadConns + 1, unavailable: true},
		"dead connections, reconnecting":  {dialect: MySQL{}, reconnect: true, comes: driver.ErrBadConn, tries: last},
		"an unknown COMMIT":               {dialect: MySQL{}, reconnect: true, comes: fmt.Errorf("%w: %w", ErrUnknownCommit, driver.ErrBadConn), tries: 1, unavailable: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := memory(t)
			if c.dialect != nil {
				db.Dialect = c.dialect
			}
			db.Reconnect = c.reconnect
			tries := 0
			err := db.Autocommit(t.Context(), func(*Tx) error {
				if tries++; tries == last {
					return nil
				}
				return c.comes
			})
			want := c.comes
			if c.tries == last {
				want = nil
			}
			if tries != c.tries || !errors.Is(err, want) || errors.Is(err, ErrUnavailable) != c.unavailable {
				t.Errorf("after %d tries, want %d: %v", tries, c.tries, err)
			}
			if err != nil && err.Error() != c.comes.Error() {
				t.Errorf("it says %q", err)
			}
		})
	}
}

// Where the time runs out the error says what was met before: also when a try found the time to be over a moment before the context did.
func TestWhatCameBeforeTheTimeRanOut(t *testing.T) {
	db := memory(t)
	db.Dialect, db.Reconnect = MySQL{}, true
	tries := 0
	err := db.Autocommit(t.Context(), func(*Tx) error {
		if tries++; tries < 3 {
			return io.ErrUnexpectedEOF
		}
		return fmt.Errorf("dial: %w", context.DeadlineExceeded) // as a dial whose deadline is that of the context
	})
	if tries != 3 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// Who gets no connection knows nothing of the database, whatever the reason is, and is told what the owner of the pool says.
func TestNoConnection(t *testing.T) {
	db := memory(t)
	db.Refused = func(_ context.Context, err error) error { return fmt.Errorf("at home: %w", err) }
	if err := db.Pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Tx(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrUnavailable) || err.Error() != "at home: sql: database is closed" {
		t.Error(err)
	}
}

// What came of a connection is not believed where the file that it was on is lost.
func TestHolds(t *testing.T) {
	db, lost := memory(t), errors.New("the file is gone")
	db.Holds = func() error { return lost }
	if err := db.On(db.Pool).Tx(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, lost) {
		t.Error(err)
	}
}

// Pauses grow up to the longest, are never the same, and end with the context.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, longest := range []time.Duration{4, 8, 16, 20, 20} {
			var took []time.Duration
			for range 50 {
				began := time.Now()
				if err := Pause(t.Context(), n, 20*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			if slices.Sort(took); took[49] >= longest*time.Millisecond || took[49] < longest*time.Millisecond/2 || took[0] == took[49] {
				t.Errorf("pause %d takes from %v to %v", n, took[0], took[49])
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Pause(ctx, 40, time.Hour); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A transaction whose function fails, or whose time is over, leaves nothing, and its connection is the next one's.
func TestRollback(t *testing.T) {
	db := memory(t)
	do := func(text string) {
		t.Helper()
		if err := db.Autocommit(t.Context(), func(t *Tx) error { _, err := t.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE TABLE {a} (n)")
	no := errors.New("no")
	err := db.Tx(t.Context(), func(t *Tx) error {
		_, err := t.Exec("INSERT INTO {a} VALUES (1)")
		return errors.Join(err, no)
	})
	if !errors.Is(err, no) || errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Tx(ctx, func(t *Tx) error {
		_, err := t.Exec("INSERT INTO {a} VALUES (1)")
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	var n int
	err = db.Repeat(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM t_a").Scan(&n)
	})
	if err != nil || n != 0 {
		t.Errorf("%d rows are left: %v", n, err)
	}
}
