package store

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Limits of one statement: SQLite takes 32,766 arguments, MySQL max_allowed_packet bytes (16 MiB on
// MariaDB; a byte of a BLOB may take two).
const (
	maxArgs  = 30_000
	maxBytes = 4 << 20
)

// distinct has each element once, in order, which is that of the locks in every batch.
func distinct[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// tuples is the condition that columns, "id, token", are one of n tuples. Both databases look every
// tuple up by the index that begins with columns, and in time that grows with n, which neither does
// for as many conditions joined with OR. MariaDB does not for a single tuple.
func tuples(columns string, n int) string {
	if n == 1 {
		return strings.ReplaceAll(columns, ", ", "=? AND ") + "=?"
	}
	row := "(" + marks(strings.Count(columns, ",")+1) + ")"
	return "(" + columns + ") IN ({values}" + strings.Repeat(row+",", n-1) + row + ")"
}

// each is the arguments of marks or tuples over list: args of every element, one after the other.
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

func texts(list []string) []any { return ids(list, func(s string) string { return s }) }

// choice makes expressions that give every row of a list its own value, and collects their arguments
// in the order in which they are made.
type choice[T any] struct {
	column string // the rows' id in the statement
	id     func(T) string
	list   []T
	args   []any
}

// of is the value that most rows have, and exceptions by id. value must return int64, string or nil.
func (c *choice[T]) of(value func(T) any) string {
	count := map[any]int{}
	var most any
	for _, v := range c.list {
		x := value(v)
		if count[x]++; count[x] > count[most] {
			most = x
		}
	}
	var b strings.Builder
	for _, v := range c.list {
		if x := value(v); x != most {
			b.WriteString(" WHEN ? THEN ?")
			c.args = append(c.args, c.id(v), x)
		}
	}
	c.args = append(c.args, most)
	if b.Len() == 0 {
		return "?"
	}
	return "CASE " + c.column + b.String() + " ELSE ? END"
}

// portions cuts a list, in its order, into parts for one statement each: at most rowsPerStatement
// elements, and at most maxBytes of text if size tells that of one.
func portions[T any](list []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n, bytes := 0, 0
			for n < min(len(list), rowsPerStatement) {
				if bytes += size(list[n]); n > 0 && bytes > maxBytes {
					break
				}
				n++
			}
			if !yield(list[:n:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// insert writes rows with as few statements as fit, and returns how many were written. into is all
// up to VALUES, and what follows them.
func (t *tx) insert(into, after string, rows [][]any) (written int64, err error) {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < len(rows) && (n+1)*len(rows[0]) <= maxArgs {
			for _, arg := range rows[n] {
				b, _ := bytesOf(arg)
				s, _ := arg.(string)
				bytes += len(b) + len(s)
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

// onConflict ends an INSERT so that it updates columns of a row whose key is there already.
func (t *tx) onConflict(key string, columns ...string) string {
	format := "%[1]s=VALUES(%[1]s)"
	start := " ON DUPLICATE KEY UPDATE "
	if t.s.dialect.name() == SQLite {
		format = "%[1]s=excluded.%[1]s"
		start = " ON CONFLICT (" + key + ") DO UPDATE SET "
	}
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = fmt.Sprintf(format, c)
	}
	return start + strings.Join(sets, ", ")
}

// clip cuts text to n bytes of valid UTF-8, for a column of that size. What fits stays as it is.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
