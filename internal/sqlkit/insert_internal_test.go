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
