package sqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

func mintSQLite(t *sqlkit.Tx, namespace string, n int) (last int64, err error) {
	_, err = t.One(`UPDATE {marks} SET token = MAX(token, {now}) + ? WHERE namespace = ? RETURNING token`, []any{n, namespace}, &last)
	return last, err
}

// writeSQLite asks for the write lock every few milliseconds until ctx ends. SQLite has one writer at a time,
// and waiting writers ask less and less often, so a renewal could lose for seconds against later writers.
func writeSQLite(ctx context.Context, db *sqlkit.DB, once func(t *sqlkit.Tx) error) error {
	return db.Repeat(ctx, func(ctx context.Context, conn *sql.Conn) error {
		t := db.With(ctx, conn)
		var timeout int
		if _, err := t.One(`PRAGMA busy_timeout`, nil, &timeout); err != nil {
			return err
		}
		if _, err := t.Exec(`PRAGMA busy_timeout = 0`); err != nil {
			return err
		}
		defer func() {
			if _, err := db.With(context.WithoutCancel(ctx), conn).Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d`, timeout)); err != nil {
				_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // not back to the pool like this
			}
		}()
		return once(t)
	})
}
