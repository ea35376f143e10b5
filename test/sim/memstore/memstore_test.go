package memstore_test

import (
	"database/sql"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// The memory store does what SQLite and MySQL do, as far as the contract goes.
func TestContract(t *testing.T) {
	contract(t, func(db *memstore.Database) *memstore.Store { return &memstore.Store{Database: db} })
}

// A transaction that meets a deadlock leaves nothing of its first try.
func TestContractWithRepeatedTransactions(t *testing.T) {
	contract(t, func(db *memstore.Database) *memstore.Store {
		return &memstore.Store{Database: db, Repeat: func(string) bool { return true }}
	})
}

func contract(t *testing.T, open func(*memstore.Database) *memstore.Store) {
	look := newGlass(t)
	storetest.RunContract(t, func(t *testing.T) *storetest.Bench {
		look.db, look.copied = memstore.New(), map[string]int{}
		another := func(*testing.T) storetest.Store { return open(look.db) }
		return &storetest.Bench{
			Dialect: store.SQLite, // nobody writes between its reads and its writes
			Store:   another(t), Open: another, DB: look,
		}
	})
}

// glass lets statements look at the rows: each sees them in a database into which they are copied, and
// what it changes is copied back.
type glass struct {
	db      *memstore.Database
	mu      sync.Mutex
	sql     *sql.DB
	columns map[string][]string
	copied  map[string]int // commits before the table was copied
}

func newGlass(t *testing.T) *glass {
	t.Helper()
	handle, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	handle.SetMaxOpenConns(1)
	st, err := store.New(handle, store.SQLite, store.Options{})
	if err == nil {
		err = st.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &glass{sql: handle, columns: memstore.Tables()}
}

func (g *glass) Handle() *sql.DB { return g.sql }

var word = regexp.MustCompile(`\{(\w+)\}`)

func (g *glass) Exec(t *testing.T, text string, args ...any) int64 {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.copyOut(t, text)
	result, err := g.sql.ExecContext(t.Context(), word.ReplaceAllString(text, "lockstep_$1"), args...)
	if err != nil {
		t.Fatal(err)
	}
	g.copyBack(t, text)
	n, _ := result.RowsAffected()
	return n
}

func (g *glass) Int(t *testing.T, text string, args ...any) (n int64) {
	t.Helper()
	if err := g.first(t, text, args, &n); err != nil {
		t.Fatal(text, err)
	}
	return n
}

func (g *glass) Text(t *testing.T, text string, args ...any) (v string) {
	t.Helper()
	if err := g.first(t, text, args, &v); err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(text, err)
	}
	return v
}

func (g *glass) first(t *testing.T, text string, args []any, dest any) error {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.copyOut(t, text)
	return g.sql.QueryRowContext(t.Context(), word.ReplaceAllString(text, "lockstep_$1"), args...).Scan(dest)
}

// named are the tables of a statement that the memory store has.
func (g *glass) named(text string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.columns)) {
		if strings.Contains(text, "{"+name+"}") {
			names = append(names, name)
		}
	}
	return names
}

func (g *glass) copyOut(t *testing.T, text string) {
	t.Helper()
	tx, err := g.sql.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}()
	for _, name := range g.named(text) {
		if before, known := g.copied[name]; known && before == g.db.Commits() {
			continue
		}
		rows, before := g.db.Dump(name)
		g.copied[name] = before
		columns := g.columns[name]
		if _, err := tx.ExecContext(t.Context(), "DELETE FROM lockstep_"+name); err != nil {
			t.Fatal(err)
		}
		row := "(?" + strings.Repeat(",?", len(columns)-1) + ")"
		for part := range slices.Chunk(rows, 500) {
			var args []any
			for _, values := range part {
				args = append(args, values...)
			}
			insert := "INSERT INTO lockstep_" + name + " (" + strings.Join(columns, ",") + ") VALUES " + row + strings.Repeat(","+row, len(part)-1)
			if _, err := tx.ExecContext(t.Context(), insert, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (g *glass) copyBack(t *testing.T, text string) {
	t.Helper()
	clear(g.copied)
	for _, name := range g.named(text) {
		rows, err := g.sql.QueryContext(t.Context(), "SELECT "+strings.Join(g.columns[name], ",")+" FROM lockstep_"+name)
		if err != nil {
			t.Fatal(err)
		}
		g.db.Restore(name, func(dest ...any) bool {
			if !rows.Next() {
				return false
			}
			if err := rows.Scan(dest...); err != nil {
				t.Fatal(err)
			}
			return true
		})
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
}
