package store

import (
	"database/sql"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"
)

// unread are the columns that no model has, and the tables that have none.
var unread = map[string]string{
	"tasks":    "failures idem_key wait_at",
	"done":     "failures idem_key session_id",
	"sessions": "live",
	"meta":     "all", "results": "all", "stripes": "all", "idempotency": "all", "configurations": "all", "migrations": "all", "pause": "all",
}

// Each model has the columns that the migrations make, no others, and fields that take what they hold.
func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		seen := map[string]bool{}
		for _, model := range []any{
			taskModel{}, doneModel{}, attemptModel{}, triggerModel{}, eventModel{}, jobModel{}, poolModel{}, kindsModel{},
			standingModel{}, sessionModel{}, auditModel{}, lockWaitModel{},
			definitionModel{}, keyModel{}, keyWaitModel{}, sequenceModel{}, uniqueModel{}, outputModel{}, chunkModel{}, expectationModel{}, orderModel{},
		} {
			stmt := gorm.Statement{DB: s.models}
			if err := stmt.Parse(model); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(s.db.Text(stmt.Schema.Table), s.db.Prefix)
			seen[name] = true
			columns := columnsIn(t, s, name)
			var want []string
			for column, c := range columns {
				field := stmt.Schema.FieldsByDBName[column]
				switch {
				case field != nil:
					if slices.Contains(strings.Fields(unread[name]), column) {
						t.Errorf("%s.%s is read", name, column)
					}
					if !c.fits(field.FieldType) {
						t.Errorf("%s.%s is %+v, which does not fit into %s", name, column, c, field.FieldType)
					}
				case !slices.Contains(strings.Fields(unread[name]), column):
					t.Errorf("%T lacks %s.%s", model, name, column)
				}
				if c.key {
					want = append(want, column)
				}
			}
			for _, field := range stmt.Schema.Fields {
				if _, is := columns[field.DBName]; !is && !field.IgnoreMigration {
					t.Errorf("%T has %s, which %s has not", model, field.DBName, name)
				}
			}
			if keys := stmt.Schema.PrimaryFieldDBNames; !slices.Equal(slices.Sorted(slices.Values(keys)), slices.Sorted(slices.Values(want))) {
				t.Errorf("%T has the primary key %q, %s has %q", model, keys, name, want)
			}
		}
		for _, name := range tables {
			if seen[name] == (unread[name] == "all") {
				t.Errorf("%s: has a model: %v", name, seen[name])
			}
		}
	})
}

type tableColumn struct {
	kind      string // INTEGER, TEXT or BLOB
	null, key bool
}

// fits reports whether a field of that type holds whatever the column may.
func (c tableColumn) fits(field reflect.Type) bool {
	if c.null && (c.kind != "BLOB" || field.Kind() == reflect.Pointer) { // nil bytes are NULL
		if field.Kind() != reflect.Pointer {
			return false
		}
		field = field.Elem()
	}
	if _, decodes := reflect.New(field).Interface().(sql.Scanner); decodes {
		return c.kind == "BLOB" || c.kind == "TEXT" && (field.Kind() == reflect.String || field == reflect.TypeFor[storedRate]())
	}
	switch field.Kind() {
	case reflect.Int64, reflect.Int, reflect.Bool:
		return c.kind == "INTEGER"
	case reflect.String:
		return c.kind == "TEXT" || c.kind == "INTEGER"
	case reflect.Slice:
		return c.kind == "BLOB"
	}
	return false
}

// columnsIn are those that a table has in the database.
func columnsIn(t *testing.T, s *Store, table string) map[string]tableColumn {
	t.Helper()
	text, args := `SELECT name, type, "notnull" = 0, pk > 0 FROM pragma_table_info(?)`, []any{s.db.Prefix + table}
	if s.db.Dialect.Name() == "mysql" {
		text = `SELECT column_name, data_type, is_nullable = 'YES', column_key = 'PRI' FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`
	}
	kinds := map[*regexp.Regexp]string{regexp.MustCompile(`(?i)int`): "INTEGER", regexp.MustCompile(`(?i)char|text|varbinary`): "TEXT", regexp.MustCompile(`(?i)blob`): "BLOB"}
	all := map[string]tableColumn{}
	err := s.read(t.Context(), "columns", func(t *tx) error {
		return t.Query(text, args, func(scan func(...any) error) error {
			var name, kind string
			var c tableColumn
			err := scan(&name, &kind, &c.null, &c.key)
			for pattern, is := range kinds {
				if pattern.MatchString(kind) {
					c.kind = is
				}
			}
			if c.kind == "" {
				return fmt.Errorf("%s.%s is of the type %s", table, name, kind)
			}
			all[name] = c
			return err
		})
	})
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}
