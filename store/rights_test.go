package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Each right on each table is missed, and so is the one to make tables where they are not there.
func TestRights(t *testing.T) {
	t.Parallel()
	root := servers.MySQL(t)
	admin := openRaw(t, store.MySQL, root)
	exec := func(format string, args ...any) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	account, err := mysql.ParseDSN(root)
	if err != nil {
		t.Fatal(err)
	}
	database := account.DBName
	account.User, account.Passwd = database, "secret"
	exec("CREATE USER %s@'%%' IDENTIFIED BY 'secret'", database)
	t.Cleanup(func() {
		if _, err := admin.Exec(fmt.Sprintf("DROP USER %s@'%%'", database)); err != nil {
			t.Error(err)
		}
	})
	check := func(migrate bool, want ...string) {
		t.Helper()
		st, err := store.Open(t.Context(), "mysql", account.FormatDSN(), store.Options{}) // connections keep the rights they began with
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		said := fmt.Sprint(st.Sides().Admin.CheckRights(t.Context(), migrate))
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("migrate %v: %s, want %q", migrate, said, w)
			}
		}
	}
	exec("GRANT SELECT ON %s.* TO %s@'%%'", database, database)
	check(false, "INSERT command denied")
	check(true, "CREATE command denied")
	exec("GRANT SELECT, CREATE, INSERT, UPDATE, DELETE ON %s.* TO %s@'%%'", database, database)
	check(true, "ALTER command denied")
	exec("GRANT ALTER ON %s.* TO %s@'%%'", database, database)
	check(true, "<nil>")
	st := open(t, store.MySQL, account.FormatDSN(), store.Options{})
	if err := st.CheckSchema(t.Context()); err == nil {
		t.Error("there are tables now")
	}
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec("REVOKE CREATE, ALTER, INSERT, UPDATE, DELETE ON %s.* FROM %s@'%%'", database, database)

	var tables []string
	rows, err := admin.QueryContext(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		if table != "lockstep_migrations" && table != "lockstep_stripes" { // which only Migrate writes
			tables = append(tables, table)
		}
	}
	if err := rows.Err(); err != nil || len(tables) == 0 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	for _, table := range tables {
		exec("GRANT INSERT, UPDATE, DELETE ON %s.%s TO %s@'%%'", database, table, database)
	}
	check(false, "<nil>")
	for _, table := range tables {
		for _, right := range []string{"INSERT", "UPDATE", "DELETE"} {
			exec("REVOKE %s ON %s.%s FROM %s@'%%'", right, database, table, database)
			check(false, right+" command denied", table)
			exec("GRANT %s ON %s.%s TO %s@'%%'", right, database, table, database)
		}
	}
}

// A SQLite file has no accounts. Beside one that Open opened a file is written, and removed.
func TestRightsOnSQLite(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, store.SQLite, filepath.Join(dir, "a.db"), store.Options{}).Sides().Admin.CheckRights(t.Context(), true); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left: %v", left, err)
	}
	own, err := store.New(lite(t, durable), store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Sides().Admin.CheckRights(t.Context(), true); err != nil {
		t.Errorf("a program's own handle: %v", err)
	}
}
