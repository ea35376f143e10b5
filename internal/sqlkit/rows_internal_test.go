package sqlkit

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const manyRows = "UPDATE {each}{a}{by_key} SET s={int s}, r={text r}, b={name b}, at=? WHERE {in name id, int token} AND s<{int s}"

// A statement for many rows is one text for each number of rows that lists are filled up to, and another one where the
// rows' values differ.
func TestStatementsForManyRows(t *testing.T) {
	same := func(n int) (rows [][]any) {
		for i := range n {
			rows = append(rows, []any{1, "r", "b", fmt.Sprint("id", i), i})
		}
		return rows
	}
	differ := same(3)
	differ[2][0], differ[2][1] = nil, "\xff\x00"
	underOne, ofOne := same(3), same(2)
	for _, row := range underOne {
		row[4] = 5
	}
	ofOne[1][3] = "id0"
	for name, c := range map[string]struct {
		d    Dialect
		rows [][]any
		text string
		args []any
	}{
		"one":   {SQLite{}, same(1), "UPDATE t_a SET s=?, r=?, b=?, at=? WHERE id=? AND token=? AND s<?", []any{1, "r", "b", 7, "id0", 0, 1}},
		"alike": {SQLite{}, same(3), "UPDATE t_a SET s=?, r=?, b=?, at=? WHERE (id, token) IN (VALUES (?,?),(?,?),(?,?),(?,?)) AND s<?", []any{1, "r", "b", 7, "id0", 0, "id1", 1, "id2", 2, "id2", 2, 1}},
		"alike, on MySQL": {
			MySQL{}, same(2), "UPDATE t_a FORCE INDEX (PRIMARY) SET s=?, r=?, b=?, at=? WHERE (id, token) IN ((?,?),(?,?)) AND s<?",
			[]any{1, "r", "b", 7, "id0", 0, "id1", 1, 1},
		},
		"alike, under one token": {
			MySQL{}, underOne, "UPDATE t_a FORCE INDEX (PRIMARY) SET s=?, r=?, b=?, at=? WHERE id IN (?,?,?,?) AND token=? AND s<?",
			[]any{1, "r", "b", 7, "id0", "id1", "id2", "id2", 5, 1},
		},
		"the same row, twice": {
			MySQL{}, [][]any{underOne[0], underOne[0]}, "UPDATE t_a FORCE INDEX (PRIMARY) SET s=?, r=?, b=?, at=? WHERE id IN (?,?) AND token=? AND s<?",
			[]any{1, "r", "b", 7, "id0", "id0", 5, 1},
		},
		"keys as they were read": {
			MySQL{}, [][]any{{1, "r", "b", []byte("id0"), 5}, {1, "r", "b", []byte("id1"), 5}},
			"UPDATE t_a FORCE INDEX (PRIMARY) SET s=?, r=?, b=?, at=? WHERE id IN (?,?) AND token=? AND s<?",
			[]any{1, "r", "b", 7, []byte("id0"), []byte("id1"), 5, 1},
		},
		"several tokens of one": {
			SQLite{}, ofOne, "UPDATE t_a SET s=?, r=?, b=?, at=? WHERE token IN (?,?) AND id=? AND s<?",
			[]any{1, "r", "b", 7, 0, 1, "id0", 1},
		},
		"different": {
			SQLite{}, differ,
			"UPDATE t_a SET s=v.new_s, r=v.new_r, b=v.new_b, at=? FROM (SELECT column1 AS new_s, column2 AS new_r, column3 AS new_b, column4 AS key_id, column5 AS key_token " +
				"FROM (VALUES (?,?,?,?,?),(?,?,?,?,?),(?,?,?,?,?),(?,?,?,?,?))) v WHERE id=v.key_id AND token=v.key_token AND s<v.new_s",
			[]any{7, 1, "r", "b", "id0", 0, 1, "r", "b", "id1", 1, nil, "\xff\x00", "b", "id2", 2, nil, nil, nil, nil, nil},
		},
		"different, on MySQL": {
			MySQL{}, differ,
			"UPDATE JSON_TABLE(CONVERT(? USING utf8mb4), '$[*]' COLUMNS (new_s BIGINT PATH '$.new_s' ERROR ON ERROR, new_r LONGTEXT PATH '$.new_r' ERROR ON ERROR, " +
				"new_b VARBINARY(255) PATH '$.new_b' ERROR ON ERROR, key_id VARBINARY(255) PATH '$.key_id' ERROR ON ERROR, key_token BIGINT PATH '$.key_token' ERROR ON ERROR)) v " +
				"STRAIGHT_JOIN t_a FORCE INDEX (PRIMARY) SET s=v.new_s, r=UNHEX(v.new_r), b=v.new_b, at=? WHERE id=v.key_id AND token=v.key_token AND s<v.new_s",
			[]any{[]byte(`[{"new_s":1,"new_r":"72","new_b":"b","key_id":"id0","key_token":0},{"new_s":1,"new_r":"72","new_b":"b","key_id":"id1","key_token":1},` +
				`{"new_r":"ff00","new_b":"b","key_id":"id2","key_token":2}]`), 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := New(new(sql.DB), c.d, "t_", []string{"a"})
			for range 2 { // made, and kept
				text, args, err := db.forRows(manyRows, c.rows, []any{7})
				if d := cmp.Diff(c.text, text) + cmp.Diff(c.args, args); d != "" || err != nil {
					t.Error(d, err)
				}
			}
		})
	}
	db := New(new(sql.DB), MySQL{}, "t_", []string{"a"})
	text, args, err := db.forRows("DELETE FROM {a} WHERE {in name job, int at, name task}", [][]any{{"a", 7, "x"}, {"b", 7, "y"}}, nil)
	if text != "DELETE FROM t_a WHERE (job, at, task) IN ((?,?,?),(?,?,?))" || len(args) != 6 || err != nil {
		t.Error(text, args, err)
	}
	texts := map[string]bool{}
	db = New(new(sql.DB), MySQL{}, "t_", []string{"a"})
	for n := 1; n <= 600; n++ {
		text, args, err := db.forRows("DELETE FROM {a} WHERE {in name id}", Rows(make([]int, n), func(int) []any { return []any{"x"} }), nil)
		most := n + n/4
		if n <= 32 {
			most = 2*n - 1
		}
		if texts[text] = true; err != nil || strings.Count(text, "?") != len(args) || len(args) < n || len(args) > most {
			t.Fatalf("%d rows: %d parameters for %d question marks: %v", n, len(args), strings.Count(text, "?"), err)
		}
	}
	if len(texts) != 23 {
		t.Errorf("%d texts, want 1, 2, 4 … 32, 40, 48, 56, 64, 80 … 512, 640", len(texts))
	}
}

// What cannot be a statement for these rows is refused before it is sent.
func TestRowsThatFitNoStatement(t *testing.T) {
	row := []any{1, "r", "b", "id", 1}
	with := func(i int, value any) [][]any {
		other := append([]any{}, row...)
		other[i] = value
		return [][]any{row, other}
	}
	for name, c := range map[string]struct {
		text string
		rows [][]any
		args []any
		want string
	}{
		"no keys":              {"SELECT 1", [][]any{row}, nil, "not a statement for many rows"},
		"values without each":  {"UPDATE {a} SET s={int s} WHERE {in name id}", [][]any{row}, nil, "not a statement for many rows"},
		"too few parameters":   {manyRows, [][]any{row}, nil, "too few parameters"},
		"a name that is none":  {manyRows, with(2, "\xff"), []any{7}, "new_b"},
		"a text that is none":  {manyRows, with(1, 7.5), []any{7}, "new_r"},
		"a text that is NULL":  {manyRows, with(1, nil), []any{7}, "new_r"},
		"an integer of a name": {manyRows, with(2, nil), []any{7}, "new_b"},
	} {
		_, _, err := New(new(sql.DB), MySQL{}, "t_", []string{"a"}).forRows(c.text, c.rows, c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// None of a list is no statement, and every row is found by its key under its values.
func TestRowsAreWritten(t *testing.T) {
	db := memory(t)
	err := db.Tx(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec("CREATE TABLE {a} (id TEXT, token INTEGER, s INTEGER, r TEXT, PRIMARY KEY (id))"); err != nil {
			return err
		}
		if n, err := tx.Exec("DELETE FROM nothing WHERE {in name id}", Many(nil)); n != 0 || err != nil {
			return fmt.Errorf("%d of none: %w", n, err)
		}
		if _, err := tx.Insert("{a} (id, token, s, r)", [][]any{{"a", 1, 0, ""}, {"b", 2, 0, ""}, {"c", 3, 0, ""}, {"d", 4, 0, ""}}); err != nil {
			return err
		}
		// A list that is read first, and has keys alone.
		if n, err := tx.Exec("SELECT id FROM {each}{a} WHERE {in name id, int token}", Many{{"a", 1}, {"b", 7}}); err != nil && db.Dialect.LocksRows() {
			return fmt.Errorf("%d read: %w", n, err)
		}
		for _, c := range []struct {
			rows [][]any
			want string
		}{
			{[][]any{{1, "x", "a", 1}, {1, "x", "b", 2}, {1, "x", "c", 9}}, "a1x b1x c0 d0"},
			{[][]any{{2, "\xff", "a", 1}, {nil, "y", "b", 2}, {1, "z", "c", 9}}, "a2\xff b0y c0 d0"},
			{[][]any{{5, "q", "d", 4}}, "a2\xff b0y c0 d5q"},
		} {
			n, err := tx.Exec("UPDATE {each}{a} SET s={int s}, r={text r} WHERE {in name id, int token}", Many(c.rows))
			if err != nil || int(n) != max(len(c.rows)-1, 1) {
				return fmt.Errorf("%v: %d rows: %w", c.rows, n, err)
			}
			var got []string
			err = tx.Query("SELECT id, COALESCE(s, 0), r FROM {a} WHERE {in name id} ORDER BY id", []any{Keys([]string{"a", "b", "c", "d", "e"})}, func(scan func(...any) error) error {
				var id, s, r string
				err := scan(&id, &s, &r)
				got = append(got, id+s+r)
				return err
			})
			if all := strings.Join(got, " "); err != nil || all != c.want {
				return fmt.Errorf("%q, want %q: %w", all, c.want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
