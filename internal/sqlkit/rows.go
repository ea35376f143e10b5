package sqlkit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A statement for many rows is one constant text, too. It says by these words where the rows' keys and values go:
//
//	{in name id, int token}  the condition that the columns are the key of one of the rows
//	{int until}              the row's own value, which the text may use several times
//	{each}                   stands before the name of the table where there are such values, or where the list is to be read first
//
// int, name and text are the types: a name is short and valid UTF-8, as keys are; a text is any bytes. Only an int may be
// NULL. A row is what the text names, in the order in which it does so first.
//
// There are two forms. Where all rows have the same values, and nearly always they do, each value is a parameter, and the
// keys are a list; columns of the key that are the same in all rows stand beside it if one alone differs, since a list of single
// values costs the database less than one of tuples. Where they differ, the values are a table, v, that the dialect makes of a parameter or of a list, and
// whose rows look theirs up by the key; the joined table is read in the order of the list.
// Lists are padded, see padded, so that there are few texts, which are worth preparing.

// Column is one of the table v.
type Column struct {
	Name string // new_… for a value, key_… for a part of the key
	Type ColumnType
}

// ColumnType is what a value may be.
type ColumnType string

const (
	ColumnInt  ColumnType = "int"
	ColumnName ColumnType = "name"
	ColumnText ColumnType = "text"
)

// Many are the rows that a statement for many rows is about: its first parameter, before those of the question marks.
type Many [][]any

// Rows is what a statement takes for each of list.
func Rows[T any](list []T, row func(T) []any) Many {
	rows := make(Many, len(list))
	for i, v := range list {
		rows[i] = row(v)
	}
	return rows
}

// Keys are rows that are strings.
func Keys(list []string) Many { return Rows(list, func(s string) []any { return []any{s} }) }

// List is the list of an IN that {in} is not for, and its parameters: one value or more, filled up with the last.
func List[T any](values []T) (text string, args []any) {
	args = make([]any, padded(len(values)))
	for i := range args {
		args[i] = values[min(i, len(values)-1)]
	}
	return "(" + Marks(len(args)) + ")", args
}

// padded is how many elements a list of n is filled up to: a power of two, and for long lists, which cost by their length,
// three lengths between it and the next one, too.
func padded(n int) int {
	const short = 32
	next := 1
	for next < n {
		next *= 2
	}
	if next <= short {
		return next
	}
	step := next / 8
	return (n + step - 1) / step * step
}

var slot = regexp.MustCompile(`\{in ([^}]*)\}|\{(int|name|text) (\w+)\}|\{each\}|\?|\sWHERE\s`)

// shape is a statement for many rows, taken apart.
type shape struct {
	parts   []part
	columns []Column // of a row
	keys    []string // of the table, as {in} says
	keyAt   []int    // where each is in a row
	update  bool
	each    bool
}

type part struct {
	text   string // before it
	kind   byte   // '?', 'v'alue, 'k'eys, 'e'ach, 'w'here, or 0: the end
	column int    // of a value
}

func newShape(text string) (*shape, error) {
	s := &shape{update: strings.HasPrefix(text, "UPDATE ")}
	column := func(name, kind string) int {
		if i := slices.IndexFunc(s.columns, func(c Column) bool { return c.Name == name }); i >= 0 {
			return i
		}
		s.columns = append(s.columns, Column{name, ColumnType(kind)})
		return len(s.columns) - 1
	}
	end, where := 0, false
	for _, m := range slot.FindAllStringSubmatchIndex(text, -1) {
		p := part{text: text[end:m[0]]}
		switch word := text[m[0]:m[1]]; {
		case word == "?":
			p.kind = '?'
		case word == "{each}":
			p.kind, s.each = 'e', true
		case strings.TrimSpace(word) == "WHERE":
			if where || !s.update {
				continue // of a subquery, or nothing has to stand before it
			}
			p.kind, where = 'w', true
		case m[2] >= 0:
			p.kind = 'k'
			for _, key := range strings.Split(text[m[2]:m[3]], ", ") {
				kind, name, _ := strings.Cut(key, " ")
				s.keys, s.keyAt = append(s.keys, name), append(s.keyAt, column("key_"+name, kind))
			}
		default:
			p.kind, p.column = 'v', column("new_"+text[m[6]:m[7]], text[m[4]:m[5]])
		}
		s.parts = append(s.parts, p)
		end = m[1]
	}
	s.parts = append(s.parts, part{text: text[end:]})
	if len(s.keys) == 0 || !s.each && len(s.keys) < len(s.columns) {
		return nil, fmt.Errorf("not a statement for many rows: %s", text)
	}
	return s, nil
}

// forRows is what a statement for many rows is for these.
func (db *DB) forRows(text string, rows Many, args []any) (string, []any, error) {
	s, err := kept(&db.texts.shapes, text, newShape)
	if err != nil {
		return "", nil, err
	}
	differ := s.each && len(s.keys) == len(s.columns) || slices.ContainsFunc(rows, func(row []any) bool { return !s.same(row, rows[0]) })
	one := form{text, padded(len(rows)), differ, 0}
	if !differ {
		one.fixed = s.fixed(rows)
	}
	rendered, err := kept(&db.texts.forms, one, func(f form) (string, error) { return db.words.Replace(s.render(db.Dialect, f)), nil })
	if err != nil {
		return "", nil, err
	}
	all := make([]any, 0, len(args)+one.n*len(s.columns))
	for _, p := range s.parts {
		switch p.kind {
		case '?':
			if len(args) == 0 {
				return "", nil, fmt.Errorf("too few parameters for %s", text)
			}
			all, args = append(all, args[0]), args[1:]
		case 'v':
			if !differ {
				all = append(all, rows[0][p.column])
			}
		case 'k':
			if differ {
				continue
			}
			for i := range one.n {
				all = s.appendKey(all, rows[min(i, len(rows)-1)], ^one.fixed)
			}
			all = s.appendKey(all, rows[0], one.fixed)
		case 'e', 'w':
			if differ && (p.kind == 'e') == db.Dialect.ListFirst(s.update) {
				list, err := db.Dialect.ListArgs(s.columns, rows, one.n)
				if err != nil {
					return "", nil, err
				}
				all = append(all, list...)
			}
		}
	}
	return rendered, all, nil
}

// form is one of the texts of a statement for many rows.
type form struct {
	text   string
	n      int
	differ bool
	fixed  uint // parts of the key, a bit for each, that stand beside the list
}

// same reports whether two rows have the same values.
func (s *shape) same(a, b []any) bool {
	for i, c := range s.columns {
		if strings.HasPrefix(c.Name, "new_") && a[i] != b[i] {
			return false
		}
	}
	return true
}

// fixed says which parts of the key stand beside the list: all but one, or none. With two in the list, databases would not look
// their rows up by an index that has the others between them.
func (s *shape) fixed(rows Many) (parts uint) {
	if len(s.keys) == 1 {
		return 0
	}
	list := 0
	for k, i := range s.keyAt {
		_, bytes := rows[0][i].([]byte) // as a column was read: they are not compared
		if bytes || slices.ContainsFunc(rows, func(row []any) bool { return row[i] != rows[0][i] }) {
			list++
			continue
		}
		parts |= 1 << k
	}
	switch list {
	case 0:
		return parts &^ 1
	case 1:
		return parts
	}
	return 0
}

// appendKey appends those parts of the row's key.
func (s *shape) appendKey(args []any, row []any, parts uint) []any {
	for k, i := range s.keyAt {
		if parts&(1<<k) != 0 {
			args = append(args, row[i])
		}
	}
	return args
}

func (s *shape) render(d Dialect, f form) string {
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(p.text)
		switch p.kind {
		case '?':
			b.WriteString("?")
		case 'v':
			if f.differ {
				b.WriteString(d.ListValue(s.columns[p.column]))
			} else {
				b.WriteString("?")
			}
		case 'k':
			if f.differ {
				b.WriteString(s.join())
			} else {
				b.WriteString(s.among(f))
			}
		case 'e', 'w':
			if f.differ && (p.kind == 'e') == d.ListFirst(s.update) {
				b.WriteString(d.List(s.columns, f.n, s.update))
			}
			if p.kind == 'w' {
				b.WriteString(" WHERE ")
			}
		}
	}
	return b.String()
}

// join is the condition that the key is that of a row of v.
func (s *shape) join() string {
	conditions := make([]string, len(s.keys))
	for i, key := range s.keys {
		conditions[i] = key + "=v.key_" + key
	}
	return strings.Join(conditions, " AND ")
}

// among is the condition that the key is one of those of the form. All databases look every
// key up by the index that begins with its columns, and in time that grows with their number, which they do not
// for as many conditions joined with OR. MariaDB does not for a single tuple.
func (s *shape) among(f form) string {
	var list, fixed []string
	for k, key := range s.keys {
		if f.n == 1 && len(s.keys) > 1 || f.fixed&(1<<k) != 0 {
			fixed = append(fixed, key+"=?")
		} else {
			list = append(list, key)
		}
	}
	var condition string
	switch len(list) {
	case 0:
		return strings.Join(fixed, " AND ")
	case 1:
		condition = list[0] + " IN (" + Marks(f.n) + ")"
	default:
		row := "(" + Marks(len(list)) + ")"
		condition = "(" + strings.Join(list, ", ") + ") IN ({values}" + strings.Repeat(row+",", f.n-1) + row + ")"
	}
	return strings.Join(append([]string{condition}, fixed...), " AND ")
}
