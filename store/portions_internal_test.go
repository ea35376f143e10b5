package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// More standings than one statement takes are made, and read, in the order of their keys.
func TestManyStandings(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	var subjects []subject
	for i := range sqlkit.MaxRows + 3 {
		subjects = append(subjects, subject{"job", fmt.Sprintf("%06d", (i*7)%(sqlkit.MaxRows+3))})
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
