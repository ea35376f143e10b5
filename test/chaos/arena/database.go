//go:build linux

package arena

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // both are opened by name
	_ "modernc.org/sqlite"
)

// prefix is what the names of the product's tables begin with.
const prefix = "lockstep_"

// database opens the store without the edges.
func (a *Arena) database(use func(*sql.DB, dialect) error) error {
	driver, dsn := a.StoreDSN()
	if driver == "sqlite" {
		dsn = "file:" + dsn + "?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetConnMaxLifetime(time.Minute)
	return use(db, dialects[driver])
}

// snapshot is database for reads that see one moment, however long they take: replicas go on, and sweep.
func (a *Arena) snapshot(ctx context.Context, use func(*sql.Conn, dialect) error) error {
	return a.database(func(db *sql.DB, d dialect) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // which ends the transaction: db is closed with it
		for _, s := range d.snapshot {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return use(conn, d)
	})
}

// unfinished counts what has not ended: tasks, and rows of the ledger. A retry that was delayed while the
// database's clock was ahead waits until that time has come, and does not count.
func (a *Arena) unfinished(ctx context.Context) (n int, err error) {
	const far = "(t.state = 1 OR t.state = 0 AND t.run_at <> t.created_at) AND t.run_at > ?"
	soon := time.Now().Add(time.Minute).UnixMicro()
	err = a.database(func(db *sql.DB, _ dialect) error {
		return db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM "+prefix+"tasks t WHERE NOT ("+far+")) + "+
			"(SELECT COUNT(*) FROM "+prefix+"triggers g LEFT JOIN "+prefix+"tasks t ON t.id = g.task_id WHERE g.outcome = '' AND (t.id IS NULL OR NOT ("+far+")))",
			soon, soon).Scan(&n)
	})
	return n, err
}

// overdue counts the rows that should have been deleted: the retention job runs once a minute.
func (a *Arena) overdue(ctx context.Context) (n int, err error) {
	if a.retention == 0 {
		return 0, nil
	}
	err = a.database(func(db *sql.DB, d dialect) error {
		words := strings.NewReplacer("{p}", prefix, "{before}", fmt.Sprintf("%s - %d", d.now, (a.retention+150*time.Second).Microseconds()))
		for _, rows := range past {
			var more int
			if err := db.QueryRowContext(ctx, words.Replace("SELECT COUNT(*) FROM {p}"+rows)).Scan(&more); err != nil {
				return fmt.Errorf("%s: %w", rows, err)
			}
			n += more
		}
		return nil
	})
	return n, err
}

// past is what should be deleted: of each table rows that are too old, or belong to a deleted task.
var past = []string{
	"done WHERE finished_at < {before}",
	"triggers WHERE outcome <> '' AND at < {before} AND until_at < {before} AND decided_at < {before} AND finished_at < {before}",
	"outputs WHERE created_at < {before}",
	"audit WHERE at < {before}",
	"events WHERE happened_at < {before}",
	"attempts a WHERE finished_at < {before} AND " + taskless("a.task_id"),
	"idempotency i WHERE created_at < {before} AND " + taskless("i.task_id"),
}

func taskless(id string) string {
	return "NOT EXISTS (SELECT 1 FROM {p}tasks t WHERE t.id = " + id + ") AND NOT EXISTS (SELECT 1 FROM {p}done d WHERE d.id = " + id + ")"
}
