package sqlkit

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// server is a database of MySQL or MariaDB.
func server(t *testing.T) *DB {
	t.Helper()
	pool, err := sql.Open("mysql", servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return New(pool, MySQL{}, "t_", []string{"a"})
}

// Rows that are there take what they are to take, and no more; or nothing.
func TestRowsThatAreThere(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *DB{"sqlite": memory, "mysql": server} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			run := func(fn func(t *Tx) error) {
				t.Helper()
				if err := db.Autocommit(t.Context(), fn); err != nil {
					t.Fatal(err)
				}
			}
			insert := func(rows [][]any) {
				run(func(t *Tx) error { _, err := t.Insert("{a} (k, l, x, y)", rows); return err })
			}
			want := func(what string, rows ...string) {
				t.Helper()
				var got []string
				run(func(t *Tx) error {
					return t.Query("SELECT CONCAT_WS(' ', k, l, COALESCE(x, 'none'), y) FROM {a} ORDER BY k, l", nil, func(scan func(...any) error) error {
						var row string
						err := scan(&row)
						got = append(got, row)
						return err
					})
				})
				if !slices.Equal(got, rows) {
					t.Errorf("%s: %q, want %q", what, got, rows)
				}
			}
			run(func(t *Tx) error {
				_, err := t.Exec("CREATE TABLE {a} (k VARCHAR(9), l INTEGER, x VARCHAR(9), y INTEGER, PRIMARY KEY (k, l))")
				return err
			})
			insert([][]any{{"a", 1, "x", 1}, {"a", 2, "x", 2}})
			run(func(t *Tx) error {
				return t.Upsert("{a} (k, l, x, y)", "k, l", [][]any{{"a", 1, nil, 3}, {"b", 1, "new", 4}})
			})
			want("all but the key", "a 1 none 3", "a 2 x 2", "b 1 new 4")
			run(func(t *Tx) error {
				return t.Upsert("{a} (k, l, x, y)", "k, l", [][]any{{"a", 2, "z", 5}, {"b", 1, "z", 6}}, "y")
			})
			want("one column", "a 1 none 3", "a 2 x 5", "b 1 new 6")
			run(func(t *Tx) error {
				n, err := t.InsertNew("{a} (k, l, x, y)", [][]any{{"a", 2, "z", 7}, {"c", 1, "z", 8}})
				if err == nil && n != 1 {
					err = fmt.Errorf("%d rows were written", n)
				}
				return err
			})
			want("none", "a 1 none 3", "a 2 x 5", "b 1 new 6", "c 1 z 8")
		})
	}
}

// On SQLite, inserts of whatever length have few texts, since each is prepared by its text; MySQL gets one statement.
func TestTextsOfInserts(t *testing.T) {
	for name, c := range map[string]struct {
		open        func(t *testing.T) *DB
		texts, most int
	}{
		"sqlite": {memory, 7, 9}, // 1 to 64 rows; of 255, three of 64 and one of each other length
		"mysql":  {server, 255, 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := c.open(t)
			texts, key := map[string]bool{}, 0
			err := db.Autocommit(t.Context(), func(tx *Tx) error {
				if _, err := tx.Exec("CREATE TABLE {a} (k INTEGER, PRIMARY KEY (k))"); err != nil {
					return err
				}
				for n := 1; n <= 255; n++ {
					var rows [][]any
					for range n {
						rows = append(rows, []any{key})
						key++
					}
					seen := &recorder{Conn: tx.Conn}
					written, err := db.With(t.Context(), seen).Insert("{a} (k)", rows)
					if err != nil || written != int64(n) {
						return fmt.Errorf("of %d rows %d were written: %w", n, written, err)
					}
					if len(seen.texts) > c.most {
						t.Errorf("%d rows are written by %d statements, want %d at most", n, len(seen.texts), c.most)
					}
					for _, text := range seen.texts {
						texts[text] = true
					}
				}
				var there int
				if _, err := tx.One("SELECT COUNT(DISTINCT k) FROM {a}", nil, &there); err != nil || there != key {
					return fmt.Errorf("%d of %d rows are there: %w", there, key, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(texts) != c.texts {
				t.Errorf("%d texts, want %d", len(texts), c.texts)
			}
		})
	}
}
