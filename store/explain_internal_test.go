package store

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Explain is the statement that returns a plan as a table of tables. MySQL 9 returns a tree without
// FORMAT, and MariaDB has no such format.
func Explain(t *testing.T, db sqlkit.Conn) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT VERSION()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var version string
	for rows.Next() {
		if err := rows.Scan(&version); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(version, "MariaDB") {
		return "EXPLAIN "
	}
	return "EXPLAIN FORMAT=TRADITIONAL "
}
