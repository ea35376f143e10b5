package store

import (
	"strings"
)

// Limits of one statement: SQLite takes 32,766 arguments, MySQL max_allowed_packet bytes (16 MiB on
// MariaDB; a byte of a BLOB may take two).
const (
	maxArgs  = 30_000
	maxBytes = 4 << 20
)

// either is n times cond, joined with OR. SQLite allows 1,000 levels of nesting, hence the groups.
func either(cond string, n int) string {
	const group = 200
	var b strings.Builder
	b.WriteString("((")
	for i := range n {
		switch {
		case i == 0:
		case i%group == 0:
			b.WriteString(") OR (")
		default:
			b.WriteString(" OR ")
		}
		b.WriteString(cond)
	}
	b.WriteString("))")
	return b.String()
}

// each is the arguments of marks or either over list: args of every element, one after the other.
func each[T any](list []T, args func(T) []any) []any {
	var all []any
	for _, v := range list {
		all = append(all, args(v)...)
	}
	return all
}

// ids are the arguments of marks.
func ids[T any](list []T, id func(T) string) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = id(v)
	}
	return all
}

// choose is an expression that gives every row its own value, and its arguments: the value most
// rows have, and exceptions by id. value must return int64, string or nil.
func choose[T any](column string, list []T, id func(T) string, value func(T) any) (string, []any) {
	count := map[any]int{}
	var most any
	for _, v := range list {
		x := value(v)
		if count[x]++; count[x] > count[most] {
			most = x
		}
	}
	var b strings.Builder
	var args []any
	for _, v := range list {
		if x := value(v); x != most {
			b.WriteString(" WHEN ? THEN ?")
			args = append(args, id(v), x)
		}
	}
	args = append(args, most)
	if len(args) == 1 {
		return "?", args
	}
	return "CASE " + column + b.String() + " ELSE ? END", args
}

// insert writes rows with as few statements as fit, and returns how many were written. into is all
// up to VALUES, and what follows them.
func (t *tx) insert(into, after string, rows [][]any) (written int64, err error) {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < len(rows) && (n == 0 || (n+1)*len(rows[0]) <= maxArgs) {
			for _, arg := range rows[n] {
				if b, ok := bytesOf(arg); ok {
					bytes += len(b)
				} else if s, ok := arg.(string); ok {
					bytes += len(s)
				}
			}
			if n > 0 && bytes > maxBytes {
				break
			}
			n++
		}
		row := "(" + marks(len(rows[0])) + ")"
		values := strings.Repeat(row+",", n-1) + row
		k, err := t.exec(into+" VALUES "+values+after, each(rows[:n], func(r []any) []any { return r })...)
		if err != nil {
			return written, err
		}
		written += k
		rows = rows[n:]
	}
	return written, nil
}

// clip cuts text to n bytes of valid UTF-8, for a column of that size.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
