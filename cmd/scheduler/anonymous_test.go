package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A fresh MariaDB has anonymous accounts, which take precedence over ours on its own machine. The error says so, and
// the advice of docs/backends.md works.
func TestAnAccountWithoutANameStandsBefore(t *testing.T) {
	t.Parallel()
	srv := servers.NewMySQL(t, "--skip-skip-name-resolve")
	srv.Exec("CREATE USER IF NOT EXISTS ''@'localhost'", "CREATE USER lockstep@'%' IDENTIFIED BY 'choose-one'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON store.* TO lockstep@'%'")
	text := "store: {driver: mysql, dsn: \"" + srv.DSNAs("lockstep", "choose-one", "store") + "\"}"
	all, _ := runDoctor(t, t.TempDir(), text)
	wantFinding(t, all, "problem store: ", "Access denied for user 'lockstep'@'localhost'", "stands before it, as in a fresh MariaDB: DROP USER ''@'localhost'")
	srv.Exec("DROP USER IF EXISTS ''@'localhost'")
	all, code := runDoctor(t, t.TempDir(), text)
	if code != exitFine {
		t.Errorf("%s", strings.Join(all, "\n"))
	}
}
