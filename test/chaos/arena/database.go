package arena

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // both are opened by name
	_ "modernc.org/sqlite"
)

// prefix is what the names of the product's tables begin with.
const prefix = "lockstep_"

// database opens the store past the edges.
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

// unfinished counts what has not ended: tasks, and rows of the ledger. A retry that was put off while the
// database's clock was ahead waits until that time has come, and does not count.
func (a *Arena) unfinished(ctx context.Context) (n int, err error) {
	const far = "t.state = 1 AND t.run_at > ?"
	soon := time.Now().Add(time.Minute).UnixMicro()
	err = a.database(func(db *sql.DB, _ dialect) error {
		return db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM "+prefix+"tasks t WHERE NOT ("+far+")) + "+
			"(SELECT COUNT(*) FROM "+prefix+"triggers g LEFT JOIN "+prefix+"tasks t ON t.id = g.task_id WHERE g.outcome = '' AND (t.id IS NULL OR NOT ("+far+")))",
			soon, soon).Scan(&n)
	})
	return n, err
}

// overdue counts the rows that should have been swept: the sweep looks once a minute.
func (a *Arena) overdue(ctx context.Context) (n int, err error) {
	if a.retention == 0 {
		return 0, nil
	}
	err = a.database(func(db *sql.DB, d dialect) error {
		before := fmt.Sprintf("%s - %d", d.now, (a.retention + 150*time.Second).Microseconds())
		return db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM "+prefix+"done WHERE finished_at < "+before+
			") + (SELECT COUNT(*) FROM "+prefix+"triggers WHERE outcome <> '' AND at < "+before+" AND decided_at < "+before+")").Scan(&n)
	})
	return n, err
}
