package sqlkit

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// memory is a database in memory.
func memory(t *testing.T) *DB {
	t.Helper()
	pool, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(1)
	return New(pool, SQLite{}, "t_", []string{"a"})
}

func TestPortionsFitIntoStatements(t *testing.T) {
	for name, c := range map[string]struct {
		sizes, want []int
	}{
		"none":           {nil, nil},
		"few":            {[]int{1, 2, 3}, []int{3}},
		"many":           {make([]int, 2*MaxRows+1), []int{MaxRows, MaxRows, 1}},
		"one too long":   {[]int{1, MaxBytes + 1, 1}, []int{1, 1, 1}},
		"together":       {[]int{MaxBytes - 1, 1, 1}, []int{2, 1}},
		"all of a batch": {slices.Repeat([]int{MaxBytes / 256}, 300), []int{256, 44}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, all []int
			for part := range Portions(c.sizes, MaxRows, func(n int) int { return n }) {
				got, all = append(got, len(part)), append(all, part...)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(all, c.sizes) {
				t.Errorf("%v, want %v", got, c.want)
			}
			for part := range Portions(c.sizes, MaxRows, func(n int) int { return n }) {
				got = append(got[:0], len(part))
				break // as after an error
			}
			if !slices.Equal(got, c.want[:len(got)]) {
				t.Errorf("the first is %v, want %v", got, c.want)
			}
		})
	}
}

// recorder notes what is sent to change rows.
type recorder struct {
	Conn
	texts []string
}

func (r *recorder) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	r.texts = append(r.texts, text)
	return r.Conn.ExecContext(ctx, text, args...)
}

// Rows are written with as few statements as take their arguments and their bytes.
func TestInsertsFitIntoStatements(t *testing.T) {
	db := server(t)
	wide := func(n int) []any { return []any{strings.Repeat("x", n/2), make([]byte, n-n/2)} }
	short := slices.Repeat([][]any{{"", 1}}, MaxArgs/2)
	for name, c := range map[string]struct {
		rows [][]any
		want int
	}{
		"none":                     {nil, 0},
		"one":                      {[][]any{{"a", nil}}, 1},
		"as many as arguments fit": {short, 1},
		"more than arguments fit":  {append(slices.Clip(short), []any{"", 2}), 2},
		"as long as fits":          {[][]any{wide(MaxBytes - 10), wide(10)}, 1},
		"a byte too long":          {[][]any{wide(MaxBytes - 10), wide(11), {"", nil}}, 2},
		"text that is too long":    {[][]any{{strings.Repeat("x", MaxBytes-9), 1}, {strings.Repeat("x", 10), 1}}, 2},
		"bytes that are too long":  {[][]any{{make([]byte, MaxBytes-9), 1}, {make([]byte, 10), 1}}, 2},
		"one that is too long":     {[][]any{{"a", 1}, wide(MaxBytes + 1), {"b", 1}}, 3},
		"the first is too long":    {[][]any{wide(MaxBytes + 1), {"b", 1}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var seen *recorder
			var written int64
			err := db.Tx(t.Context(), func(t *Tx) (err error) {
				if _, err := t.Exec("CREATE TABLE wide (a LONGTEXT, b LONGBLOB)"); err != nil {
					return err
				}
				seen = &recorder{Conn: t.Conn}
				if written, err = db.With(t.Ctx, seen).Insert("wide (a, b)", c.rows); err != nil {
					return err
				}
				_, err = t.Exec("DROP TABLE wide")
				return err
			})
			if err != nil || written != int64(len(c.rows)) || len(seen.texts) != c.want {
				t.Errorf("%d of %d rows with %d statements, want %d: %v", written, len(c.rows), len(seen.texts), c.want, err)
			}
		})
	}
}
