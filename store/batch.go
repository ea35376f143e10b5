package store

import "strings"

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

// clip cuts text to n bytes of valid UTF-8, for a column of that size. What fits stays as it is.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
