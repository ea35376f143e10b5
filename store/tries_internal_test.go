package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The error of a call is that of its last try. An error of an earlier try is added only if it is why the time ran out.
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
		"a lost answer to COMMIT too late":   {tries: []error{refused, sqlkit.ErrUnknownCommit}, over: 2, want: unavailable + "the answer to COMMIT was lost"},
		"a lost answer to COMMIT in between": {tries: []error{sqlkit.ErrUnknownCommit, refused}, want: unavailable + "the answer to COMMIT was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			err := s.read(ctx, "look", func(*tx) error {
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
			err := s.read(t.Context(), "look", func(t *tx) error { _, err := t.One(text, nil, new(int)); return err })
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
		pool := s.db.Pool
		pool.SetMaxOpenConns(1)
		do := func(text string) {
			t.Helper()
			if err := s.autocommit(t.Context(), "test", func(t *tx) error { _, err := t.Exec(text); return err }); err != nil {
				t.Fatal(err)
			}
		}
		do(`CREATE TEMPORARY TABLE mine (n INTEGER)`)
		for _, end := range []error{nil, jobs.ErrConflict} {
			err := s.tx(t.Context(), "test", func(t *tx) error {
				_, err := t.Exec(`INSERT INTO mine (n) VALUES (1)`)
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
		found, err := tx.One(`SELECT 1 WHERE 1 = 0`, nil, &n)
		if found {
			t.Error("it found a row where there is none")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
