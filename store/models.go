package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// openModels is gorm for the models of a store. It belongs to the store alone, whatever plugins and settings a program's own handle
// has, and has no connections: each query of it runs on the connection of a tx.
func openModels(d sqlkit.Dialect, prefix string) (*gorm.DB, error) {
	return gorm.Open(gormDialector(d, nil), &gorm.Config{
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

// bound is the connection of a tx for gorm: words in braces have their usual meaning in its statements. The methods for single
// rows and prepared statements are missing, as they are not used.
type bound struct {
	gorm.ConnPool
	t *sqlkit.Tx
}

func (b bound) ExecContext(_ context.Context, text string, args ...any) (sql.Result, error) {
	return b.t.Result(text, args...)
}

func (b bound) QueryContext(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	return b.t.Rows(text, args...)
}

// table is a query of the table of M.
func table[M any](t *tx) *gorm.DB { return t.gorm().Model(new(M)) }

// rows runs a query and calls fn for each row, in order. It selects the columns of M, and not those that a later version adds,
// unless the query has its own selection. All rows are read into one M: fn copies what it keeps. Find of gorm allocates each value
// of each row, and takes half as long again for a page.
func rows[M any](q *gorm.DB, fn func(m *M) error) error {
	if _, selects := q.Statement.Clauses["SELECT"]; !selects && len(q.Statement.Selects) == 0 {
		q = q.Clauses(clause.Select{Expression: clause.Expr{SQL: strings.Join(modelOf(new(M)).DBNames, ", ")}})
	}
	found, err := q.Rows()
	return scan(found, err, fn)
}

// read is rows of a statement that is written out.
func read[M any](t *tx, text string, args []any, fn func(m *M) error) error {
	found, err := t.Rows(text, args...)
	return scan(found, err, fn)
}

// readOf is read of a statement for many rows.
func readOf[M any](t *tx, text string, keys [][]any, args []any, fn func(m *M) error) error {
	if len(keys) == 0 {
		return nil
	}
	found, err := t.RowsOf(text, keys, args...)
	return scan(found, err, fn)
}

func scan[M any](found *sql.Rows, err error, fn func(m *M) error) error {
	if err != nil {
		return err
	}
	defer found.Close()
	m := new(M)
	model := modelOf(m)
	columns, err := found.Columns()
	dest := make([]any, len(columns))
	for i, column := range columns {
		field := model.FieldsByDBName[column[strings.LastIndexByte(column, '.')+1:]] // a DSN may want tables in front of columns
		if field == nil {
			return fmt.Errorf("%T has no column %q", *m, column)
		}
		dest[i] = field.ReflectValueOf(context.Background(), reflect.ValueOf(m)).Addr().Interface()
	}
	for err == nil && found.Next() {
		if err = found.Scan(dest...); err == nil {
			err = fn(m)
		}
	}
	return cmp.Or(err, found.Err())
}

// list is the rows of a query, each converted.
func list[M, R any](q *gorm.DB, of func(m *M) R) (all []R, err error) {
	err = rows(q, func(m *M) error {
		all = append(all, of(m))
		return nil
	})
	return all, err
}

// column is the one column of a statement that is written out.
func column[V any](t *tx, text string, args ...any) ([]V, error) {
	return values[V](t.Rows(text, args...))
}

// columnOf is column of a statement for many rows.
func columnOf[V any](t *tx, text string, keys [][]any, args ...any) ([]V, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return values[V](t.RowsOf(text, keys, args...))
}

func values[V any](found *sql.Rows, err error) (all []V, _ error) {
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for v := *new(V); found.Next(); all = append(all, v) {
		if err := found.Scan(&v); err != nil {
			return nil, err
		}
	}
	return all, found.Err()
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
