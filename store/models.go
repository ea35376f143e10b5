package store

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// openModels is gorm for the models of a store. It belongs to the store alone, whatever plugins and settings a program's own handle
// has, and has no connections: each query of it runs on the connection of a tx.
//
// It reads, and what it reads is said in one way for all databases: SQLite quotes as MySQL does, too.
func openModels(prefix string) (*gorm.DB, error) {
	return gorm.Open(mysql.New(mysql.Config{Conn: (*sql.DB)(nil), SkipInitializeWithVersion: true}), &gorm.Config{
		NamingStrategy:         schema.NamingStrategy{TablePrefix: prefix, NameReplacer: strings.NewReplacer("Model", "")},
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard,
	})
}

// gorm is a query of gorm on the connection of t. Session of gorm makes the same, and copies more than that.
func (t *tx) gorm() *gorm.DB {
	db := &gorm.DB{Config: t.s.models.Config}
	db.Statement = &gorm.Statement{DB: db, ConnPool: bound{t: t.Tx}, Context: t.Ctx, Clauses: map[string]clause.Clause{}}
	return db
}

// bound is the connection of a tx for gorm: words in braces have their usual meaning in its statements. The other methods are
// missing, as they are not used.
type bound struct {
	gorm.ConnPool
	t *sqlkit.Tx
}

func (b bound) QueryContext(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	return b.t.Rows(text, args...)
}

// table is a query of the table of M.
func table[M any](t *tx) *gorm.DB { return t.gorm().Model(new(M)) }

// found are the rows of a query, for each, list, column and keys. All of them close it.
type found struct {
	*sql.Rows // nil: of a statement for many rows, and there are none
	err       error
}

// rows runs a statement that is written out.
func (t *tx) rows(text string, args ...any) found {
	rows, err := t.Rows(text, args...)
	return found{rows, err}
}

// rowsOf runs a query of gorm. It selects the columns of its model, and not those that a later version adds, unless the query
// has its own selection.
func rowsOf(q *gorm.DB) found {
	if _, selects := q.Statement.Clauses["SELECT"]; q.Statement.Model != nil && !selects && len(q.Statement.Selects) == 0 {
		q = q.Clauses(clause.Select{Expression: clause.Expr{SQL: columnsOf(q.Statement.Model)}})
	}
	rows, err := q.Rows()
	return found{rows, err}
}

// each calls fn for each row, in order, until fn closes f. All rows are read into one M: fn copies what it keeps. Find of gorm
// allocates each value of each row, and takes half as long again for a page.
func each[M any](f found, fn func(m *M)) error {
	if f.err != nil || f.Rows == nil {
		return f.err
	}
	defer f.Close()
	m := new(M)
	model := modelOf(m)
	columns, err := f.Columns()
	dest := make([]any, len(columns))
	for i, column := range columns {
		field := model.FieldsByDBName[column[strings.LastIndexByte(column, '.')+1:]] // a DSN may want tables in front of columns
		if field == nil {
			return fmt.Errorf("%T has no column %q", *m, column)
		}
		dest[i] = field.ReflectValueOf(context.Background(), reflect.ValueOf(m)).Addr().Interface()
	}
	for err == nil && f.Next() {
		if err = f.Scan(dest...); err != nil {
			return fmt.Errorf("%s %v: %w", columns[0], reflect.ValueOf(dest[0]).Elem(), err)
		}
		fn(m)
	}
	return cmp.Or(err, f.Err())
}

// list is all rows, each converted.
func list[M, R any](f found, of func(m *M) R) (all []R, err error) {
	return listInto(nil, f, of)
}

// listInto is list, behind what is in all.
func listInto[M, R any](all []R, f found, of func(m *M) R) ([]R, error) {
	err := each(f, func(m *M) { all = append(all, of(m)) })
	return all, err
}

// orNull is a text for a column that may be NULL.
func orNull(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

// mapped is all of a list, each converted.
func mapped[V, R any](list []V, of func(V) R) []R {
	all := make([]R, len(list))
	for i, v := range list {
		all[i] = of(v)
	}
	return all
}

// those are the elements of a list that is is true of.
func those[V any](list []V, is func(V) bool) (some []V) {
	for _, v := range list {
		if is(v) {
			some = append(some, v)
		}
	}
	return some
}

// column is all rows of a query with one column.
func column[V any](f found) (all []V, err error) {
	if f.err != nil || f.Rows == nil {
		return nil, f.err
	}
	defer f.Close()
	for v := *new(V); f.Next(); all = append(all, v) {
		if err := f.Scan(&v); err != nil {
			return nil, err
		}
	}
	return all, f.Err()
}

// keys is all rows, as the keys that a statement for many rows has.
func keys(f found) (all sqlkit.Many, err error) {
	if f.err != nil {
		return nil, f.err
	}
	defer f.Close()
	columns, err := f.Columns()
	for err == nil && f.Next() {
		row, dest := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		err = f.Scan(dest...)
		for i, v := range row {
			if text, is := v.([]byte); is { // as drivers for MySQL have it
				row[i] = string(text)
			}
		}
		all = append(all, row)
	}
	return all, cmp.Or(err, f.Err())
}

// encoded is a column with JSON; one without content is the zero T.
type encoded[T any] struct{ is T }

func (e encoded[T]) Value() (driver.Value, error) { return json.Marshal(e.is) }

func (e *encoded[T]) Scan(column any) error {
	e.is = *new(T)
	var text sql.Null[[]byte]
	if err := text.Scan(column); err != nil || len(text.V) == 0 {
		return err
	}
	return json.Unmarshal(text.V, &e.is)
}

// columnsOf is the columns of a model in its order, but for some.
func columnsOf(model any, but ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(modelOf(model).DBNames), func(c string) bool { return slices.Contains(but, c) }), ", ")
}

// modelOf is gorm's schema of a model, but for the name of its table. gorm's own cache has a channel in it, which belongs to
// the synctest bubble that used it first.
func modelOf(model any) *schema.Schema {
	if known, ok := parsed.Load(reflect.TypeOf(model)); ok {
		return known.(*schema.Schema)
	}
	s, err := schema.Parse(model, new(sync.Map), schema.NamingStrategy{})
	if err != nil {
		panic(err) // of this package's own models, at its start
	}
	parsed.Store(reflect.TypeOf(model), s)
	return s
}

var parsed sync.Map // *schema.Schema by type
