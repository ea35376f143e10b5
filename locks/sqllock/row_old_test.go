package sqllock_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The table of rows of earlier versions, which has more columns, serves as it is: an account may have no right to alter it.
func TestRowModeTableOfEarlierVersions(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE lockstep_lock_rows (namespace VARBINARY(200) NOT NULL, name VARBINARY(200) NOT NULL,
		token BIGINT NOT NULL, session_id VARBINARY(200) NOT NULL, acquisition VARBINARY(200) NOT NULL, owner VARBINARY(512) NOT NULL,
		meta VARBINARY(512) NOT NULL, since BIGINT NOT NULL, connection BIGINT NOT NULL, PRIMARY KEY (namespace, name)) ENGINE=InnoDB`); err != nil {
		t.Fatal(err)
	}
	s := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	take(t, s, "k")
}
