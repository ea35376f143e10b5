package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What an error means for the transaction that met it: a conflict or a lost connection is worth another try, unless the
// time of the call is over or nothing is known; what the database answers is an answer.
func TestFaults(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	answer := func(number uint16) error { return fmt.Errorf("claim: %w", &mysql.MySQLError{Number: number}) }
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want fault
	}{
		{t.Context(), nil, faultNone},
		{over, nil, faultNone},
		{t.Context(), jobs.ErrNotFound, faultNone},
		{t.Context(), answer(1062), faultNone}, // duplicate key
		{t.Context(), answer(1146), faultNone},
		{t.Context(), answer(1205), faultPassing},
		{t.Context(), answer(1213), faultPassing},
		{t.Context(), answer(1020), faultPassing},
		{t.Context(), answer(1053), faultPassing},
		{t.Context(), answer(1290), faultPassing},
		{t.Context(), driver.ErrBadConn, faultPassing},
		{t.Context(), sql.ErrConnDone, faultPassing},
		{t.Context(), mysql.ErrInvalidConn, faultPassing},
		{t.Context(), fmt.Errorf("read: %w", io.EOF), faultPassing},
		{t.Context(), fmt.Errorf("read: %w", io.ErrUnexpectedEOF), faultPassing},
		{t.Context(), refused, faultPassing},
		{over, answer(1213), faultFinal},
		{over, driver.ErrBadConn, faultFinal},
		{over, jobs.ErrNotFound, faultFinal},
		{t.Context(), fmt.Errorf("read: %w", context.DeadlineExceeded), faultFinal},
		{t.Context(), fmt.Errorf("read: %w", context.Canceled), faultFinal},
		{t.Context(), fmt.Errorf("%w: %w", errUnknownCommit, driver.ErrBadConn), faultFinal},
	} {
		s := &Store{dialect: mysqlDialect{}}
		if got := s.fault(c.ctx, c.err); got != c.want {
			t.Errorf("%v, with the call's time over %t: %d, want %d", c.err, c.ctx.Err() != nil, got, c.want)
		}
	}
}

// What a call returns says what came of its last try, and what was in the way before that only where this is why the time ran out.
func TestWhatTriesCameTo(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	refused := fmt.Errorf("connection refused: %w", driver.ErrBadConn)
	const unavailable = "store: look: store unavailable: "
	for name, c := range map[string]struct {
		tries []error // the last one is repeated
		over  int     // the try in which the time runs out; 0: none
		want  string  // "": no error
	}{
		"an answer":                          {tries: []error{jobs.ErrConflict}, want: "store: look: conflict"},
		"an answer that nothing is known":    {tries: []error{jobs.ErrUnavailable}, want: "store: look: store unavailable"},
		"done at the second try":             {tries: []error{refused, nil}},
		"done as the time ran out":           {tries: []error{nil}, over: 1},
		"done at last as the time ran out":   {tries: []error{refused, nil}, over: 2},
		"too late":                           {tries: []error{context.Canceled}, over: 1, want: unavailable + "context canceled"},
		"too late after a fault":             {tries: []error{refused, context.Canceled}, over: 2, want: unavailable + "context canceled, after connection refused: driver: bad connection"},
		"too late to try again":              {tries: []error{refused}, over: 1, want: unavailable + "connection refused: driver: bad connection"},
		"an end after a fault":               {tries: []error{refused, context.Canceled}, want: unavailable + "context canceled"},
		"an answer after a fault":            {tries: []error{refused, jobs.ErrConflict}, want: "store: look: conflict"},
		"a lost answer to COMMIT too late":   {tries: []error{refused, errUnknownCommit}, over: 2, want: "store: look: the answer to COMMIT was lost: store unavailable"},
		"a lost answer to COMMIT in between": {tries: []error{errUnknownCommit, refused}, want: "store: look: the answer to COMMIT was lost: store unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			err := s.repeat(ctx, "look", s.readers, func(context.Context, *sql.Conn) error {
				n++
				if n == c.over {
					cancel()
				}
				return c.tries[min(n, len(c.tries))-1]
			})
			if err == nil {
				err = errors.New("")
			}
			if err.Error() != c.want {
				t.Errorf("%d tries: %q, want %q", n, err, c.want)
			}
			if is, want := errors.Is(err, jobs.ErrUnavailable), strings.Contains(c.want, "unavailable"); is != want {
				t.Errorf("jobs.ErrUnavailable: %t", is)
			}
		})
	}
}

// A statement that is broken is no sign of tables that are missing.
func TestOnlyMissingTablesAreAMatterOfTheSchema(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		for text, schema := range map[string]bool{
			`SELECT 1 FROM {tasks} WHERE`: false, `SELECT nothing FROM {tasks}`: false, `SELECT 1 FROM elsewhere`: true,
		} {
			err := s.read(t.Context(), "look", func(t *tx) error { _, err := t.one(text, nil, new(int)); return err })
			if err == nil || errors.Is(err, ErrSchema) != schema || strings.HasPrefix(err.Error(), "store: look: database schema does not fit this program: ") != schema ||
				strings.HasSuffix(err.Error(), ": call Migrate first, or run \"scheduler migrate up\"") != schema {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// A transaction leaves its connection as it was, for the next one, however it ended.
func TestConnectionsOutliveTransactions(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		pool, err := s.writers.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(1)
		do := func(text string) {
			t.Helper()
			if err := s.autocommit(t.Context(), "test", func(t *tx) error { _, err := t.exec(text); return err }); err != nil {
				t.Fatal(err)
			}
		}
		do(`CREATE TEMPORARY TABLE mine (n INTEGER)`)
		for _, end := range []error{nil, jobs.ErrConflict} {
			err := s.tx(t.Context(), "test", func(t *tx) error {
				_, err := t.exec(`INSERT INTO mine (n) VALUES (1)`)
				return errors.Join(err, end)
			})
			if !errors.Is(err, end) {
				t.Fatal(err)
			}
			do(`DELETE FROM mine`) // another connection has none
		}
	})
}

// Of several rows the first one is read.
func TestOneReadsTheFirstRow(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	if got := text(t, s, `SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 ORDER BY 1`); got != "1" {
		t.Errorf("it read %s", got)
	}
	err := s.read(t.Context(), "test", func(tx *tx) error {
		var n int
		found, err := tx.one(`SELECT 1 WHERE 1 = 0`, nil, &n)
		if found {
			t.Error("it found a row where there is none")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
