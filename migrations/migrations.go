// Package migrations holds the tables of the store as numbered SQL, one folder per dialect.
//
// A migration only adds, so that programs of the version before keep working, unless its line "-- min_compatible: n"
// excludes them. Its statements may run twice, since MySQL commits each of them at once; one that adds existing columns
// counts as applied.
package migrations

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed sqlite/*.sql mysql/*.sql
var files embed.FS

// Dialect is a kind of database.
type Dialect string

const (
	SQLite Dialect = "sqlite"
	MySQL  Dialect = "mysql" // MySQL 8.0.16 or later, MariaDB 10.6 or later
)

// Migration is one numbered file.
type Migration struct {
	Version       int // from 1, without gaps
	Name          string
	MinCompatible int // programs of lower versions must not use the schema
	SQL           string
}

// For returns the migrations of a dialect, in order.
func For(d Dialect) ([]Migration, error) {
	entries, err := files.ReadDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("migrations: no dialect %q", d)
	}
	var all []Migration
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join(string(d), entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		m, err := parse(entry.Name(), string(text))
		if err != nil {
			return nil, fmt.Errorf("migrations: %s/%s: %w", d, entry.Name(), err)
		}
		if m.Version != len(all)+1 {
			return nil, fmt.Errorf("migrations: %s/%s: version %d is missing", d, entry.Name(), len(all)+1)
		}
		all = append(all, m)
	}
	return all, nil
}

func parse(file, text string) (Migration, error) {
	number, name, _ := strings.Cut(strings.TrimSuffix(file, ".sql"), "_")
	version, err := strconv.Atoi(number)
	if err != nil || name == "" {
		return Migration{}, fmt.Errorf("the name is not NNNN_name.sql")
	}
	first, _, _ := strings.Cut(text, "\n")
	compatible, err := strconv.Atoi(strings.TrimPrefix(first, "-- min_compatible: "))
	if err != nil || compatible < 1 || compatible > version {
		return Migration{}, fmt.Errorf("the first line is not -- min_compatible: n")
	}
	return Migration{Version: version, Name: name, MinCompatible: compatible, SQL: text}, nil
}

// Statements returns the statements, for tables with the given prefix. A statement ends with a line that ends with a
// semicolon.
func (m Migration) Statements(prefix string) (statements []string) {
	for statement := range strings.SplitSeq(strings.ReplaceAll(m.SQL, "{p}", prefix), ";\n") {
		for strings.HasPrefix(statement, "--") || strings.HasPrefix(statement, "\n") {
			_, statement, _ = strings.Cut(statement, "\n")
		}
		if statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// Tables returns the names of the tables that the migration creates.
func (m Migration) Tables(prefix string) []string {
	var names []string
	for _, statement := range m.Statements(prefix) {
		if rest, ok := strings.CutPrefix(statement, "CREATE TABLE IF NOT EXISTS "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}
