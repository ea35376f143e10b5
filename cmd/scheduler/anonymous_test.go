package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A fresh MariaDB has accounts without a name that come before ours on its own machine: the message says
// so, and what docs/backends.md says lets us in.
func TestAnAccountWithoutANameStandsBefore(t *testing.T) {
	t.Parallel()
	srv := servers.NewMySQL(t, "--skip-skip-name-resolve")
	srv.Exec("CREATE USER IF NOT EXISTS ''@'localhost'", "CREATE USER lockstep@'%' IDENTIFIED BY 'choose-one'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON store.* TO lockstep@'%'")
	text := "store: {driver: mysql, dsn: \"" + srv.DSNAs("lockstep", "choose-one", "store") + "\"}"
	all, _ := consult(t, t.TempDir(), text)
	wantFinding(t, all, "problem store: ", "Access denied for user 'lockstep'@'localhost'", "stands before it, as in a fresh MariaDB: DROP USER ''@'localhost'")
	srv.Exec("DROP USER IF EXISTS ''@'localhost'")
	all, code := consult(t, t.TempDir(), text)
	if code != exitFine {
		t.Errorf("%s", strings.Join(all, "\n"))
	}
}
