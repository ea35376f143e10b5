//go:build linux

package arena

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Replicas sweep while a run is exported: what they remove then was there, in the moment that is exported.
func TestExportIsOfOneMoment(t *testing.T) {
	for _, c := range []Cell{{SQLite, SQLite}, {MariaDB, MariaDB}} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			a := Open(t, c, t.TempDir(), Options{Replicas: 1, Retention: time.Minute})
			if err := a.Replicas[0].KillGroup(); err != nil { // the test sweeps
				t.Fatal(err)
			}
			var jobs int
			sweep := func(db *sql.DB, _ dialect) error {
				_, err := db.ExecContext(t.Context(), "DELETE FROM "+prefix+"jobs")
				return err
			}
			err := a.snapshot(t.Context(), func(conn *sql.Conn, d dialect) error {
				if err := a.database(sweep); err != nil {
					return err
				}
				swept, err := a.exportAudit(t.Context(), conn)
				if err != nil {
					return err
				}
				return a.exportFinal(t.Context(), conn, d, swept)
			})
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(a.Dir, history.FinalFile))
			if err != nil {
				t.Fatal(err)
			}
			var final history.Final
			if err := json.Unmarshal(text, &final); err != nil {
				t.Fatal(err)
			}
			if err := a.database(func(db *sql.DB, _ dialect) error {
				return db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+prefix+"jobs").Scan(&jobs)
			}); err != nil {
				t.Fatal(err)
			}
			if len(final.Jobs) != len(jobsOfRun()) || jobs != 0 {
				t.Errorf("%d jobs are exported, of %d; %d are left", len(final.Jobs), len(jobsOfRun()), jobs)
			}
			if audit, err := os.ReadFile(filepath.Join(a.Dir, history.AuditFile)); err != nil || len(audit) == 0 {
				t.Errorf("%d bytes of audit: %v", len(audit), err)
			}
		})
	}
}
