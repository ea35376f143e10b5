package sqlkit

import (
	"slices"
	"strings"
)

// Insert writes rows with as few statements as the dialect has them, and returns how many were written. into is the table and
// its columns: "{tasks} (id, pool)".
func (t *Tx) Insert(into string, rows [][]any) (written int64, err error) {
	return t.insert("INSERT INTO "+into, "", rows)
}

// InsertNew is Insert but for rows whose key is there.
func (t *Tx) InsertNew(into string, rows [][]any) (written int64, err error) {
	return t.insert("{insert_ignore} "+into, "{or_ignore}", rows)
}

// Upsert is Insert, and where the key, "kind, name", is there the row takes the columns named, or else all that are not
// of the key.
func (t *Tx) Upsert(into, key string, rows [][]any, columns ...string) error {
	if len(columns) == 0 {
		_, all, _ := strings.Cut(strings.TrimSuffix(into, ")"), "(")
		of := strings.Split(key, ", ")
		columns = slices.DeleteFunc(strings.Split(all, ", "), func(column string) bool { return slices.Contains(of, column) })
	}
	_, err := t.insert("INSERT INTO "+into, t.DB.Dialect.OnConflict(key, columns), rows)
	return err
}

func (t *Tx) insert(into, after string, rows [][]any) (written int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	into, after = t.DB.Text(into)+" VALUES ", t.DB.Text(after)
	row := "(" + Marks(len(rows[0])) + ")"
	for part := range Portions(rows, MaxArgs/len(rows[0]), textsIn) {
		for len(part) > 0 {
			n := t.DB.Dialect.AtOnce(len(part))
			k, err := t.exec(into+strings.Repeat(row+",", n-1)+row+after, slices.Concat(part[:n]...))
			if err != nil {
				return written, err
			}
			written, part = written+k, part[n:]
		}
	}
	return written, nil
}

// textsIn is how many bytes of text a row has.
func textsIn(row []any) (bytes int) {
	for _, arg := range row {
		b, _ := bytesOf(arg)
		s, _ := arg.(string)
		bytes += len(b) + len(s)
	}
	return bytes
}

// assign lists columns, each as format says, in which ? stands for its name.
func assign(columns []string, format string) string {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = strings.ReplaceAll(format, "?", c)
	}
	return strings.Join(sets, ", ")
}
