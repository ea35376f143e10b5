package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortionsFitIntoStatements(t *testing.T) {
	for name, c := range map[string]struct {
		sizes, want []int
	}{
		"none":           {nil, nil},
		"few":            {[]int{1, 2, 3}, []int{3}},
		"many":           {make([]int, 2*rowsPerStatement+1), []int{rowsPerStatement, rowsPerStatement, 1}},
		"one too long":   {[]int{1, maxBytes + 1, 1}, []int{1, 1, 1}},
		"together":       {[]int{maxBytes - 1, 1, 1}, []int{2, 1}},
		"all of a batch": {slices.Repeat([]int{maxBytes / 256}, 300), []int{256, 44}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, all []int
			for part := range portions(c.sizes, func(n int) int { return n }) {
				got, all = append(got, len(part)), append(all, part...)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(all, c.sizes) {
				t.Errorf("%v, want %v", got, c.want)
			}
			for part := range portions(c.sizes, func(n int) int { return n }) {
				got = append(got[:0], len(part))
				break // as after an error
			}
			if !slices.Equal(got, c.want[:len(got)]) {
				t.Errorf("the first is %v, want %v", got, c.want)
			}
		})
	}
}

// More standings than one statement takes are made, and read, in the order of their keys.
func TestManyStandings(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	var subjects []subject
	for i := range rowsPerStatement + 3 {
		subjects = append(subjects, subject{"job", fmt.Sprintf("%06d", (i*7)%(rowsPerStatement+3))})
	}
	for range 2 {
		var rows []*standing
		err := s.tx(t.Context(), "test", func(t *tx) (err error) { rows, err = t.lockStandings(slices.Clone(subjects)); return err })
		if err != nil || len(rows) != len(subjects) {
			t.Fatalf("%d of %d: %v", len(rows), len(subjects), err)
		}
		for i, r := range rows {
			if want := fmt.Sprintf("%06d", i); r.name != want {
				t.Fatalf("row %d is %s", i, r.name)
			}
		}
	}
}

// counted counts what is sent to change rows.
type counted struct {
	querier
	execs *int
}

func (c counted) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	*c.execs++
	return c.querier.ExecContext(ctx, query, args...)
}

// Rows are written with as few statements as take their arguments and their bytes.
func TestInsertsFitIntoStatements(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	wide := func(n int) []any { return []any{strings.Repeat("x", n/2), make([]byte, n-n/2)} }
	short := slices.Repeat([][]any{{"", 1}}, maxArgs/2)
	for name, c := range map[string]struct {
		rows [][]any
		want int
	}{
		"none":                     {nil, 0},
		"one":                      {[][]any{{"a", nil}}, 1},
		"as many as arguments fit": {short, 1},
		"more than arguments fit":  {append(slices.Clip(short), []any{"", 2}), 2},
		"as long as fits":          {[][]any{wide(maxBytes - 10), wide(10)}, 1},
		"a byte too long":          {[][]any{wide(maxBytes - 10), wide(11), {"", nil}}, 2},
		"text that is too long":    {[][]any{{strings.Repeat("x", maxBytes-9), 1}, {strings.Repeat("x", 10), 1}}, 2},
		"bytes that are too long":  {[][]any{{make([]byte, maxBytes-9), 1}, {make([]byte, 10), 1}}, 2},
		"one that is too long":     {[][]any{{"a", 1}, wide(maxBytes + 1), {"b", 1}}, 3},
		"the first is too long":    {[][]any{wide(maxBytes + 1), {"b", 1}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			execs := 0
			var written int64
			err := s.tx(t.Context(), "test", func(t *tx) (err error) {
				if _, err := t.exec("CREATE TABLE wide (a, b)"); err != nil {
					return err
				}
				execs = 0
				within := t.s.within(t.ctx, counted{t.conn, &execs})
				if written, err = within.insert("INSERT INTO wide (a, b)", "", c.rows); err != nil {
					return err
				}
				_, err = t.exec("DROP TABLE wide")
				return err
			})
			if err != nil || written != int64(len(c.rows)) || execs != c.want {
				t.Errorf("%d of %d rows with %d statements, want %d: %v", written, len(c.rows), execs, c.want, err)
			}
		})
	}
}

// A statement that gives every row a value of its own says the value that most of them have once.
func TestChoicesSayMostRowsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		values []any
		text   string
		args   []any
	}{
		"all alike":      {[]any{"x", "x", "x"}, "?", []any{"x"}},
		"most at first":  {[]any{"x", "x", "y"}, "CASE id WHEN ? THEN ? ELSE ? END", []any{"2", "y", "x"}},
		"most at last":   {[]any{"y", "x", "x"}, "CASE id WHEN ? THEN ? ELSE ? END", []any{"0", "y", "x"}},
		"most have none": {[]any{nil, int64(7), nil}, "CASE id WHEN ? THEN ? ELSE ? END", []any{"1", int64(7), nil}},
		"several others": {[]any{"z", "y", "x", "x"}, "CASE id WHEN ? THEN ? WHEN ? THEN ? ELSE ? END", []any{"0", "z", "1", "y", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows := make([]int, len(c.values))
			for i := range rows {
				rows[i] = i
			}
			all := choice[int]{column: "id", id: func(i int) string { return string(rune('0' + i)) }, list: rows}
			if d := cmp.Diff(c.text, all.of(func(i int) any { return c.values[i] })) + cmp.Diff(c.args, all.args); d != "" {
				t.Error(d)
			}
		})
	}
}
