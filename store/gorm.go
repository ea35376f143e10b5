package store

import (
	"database/sql"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// gormDialector is what gorm calls a dialect, on a pool or none.
func gormDialector(d sqlkit.Dialect, pool *sql.DB) gorm.Dialector {
	if d.Name() == SQLite {
		return sqliteDialector{pool: pool}
	}
	return gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true})
}

// sqliteDialector lets gorm work on a pool of any SQLite driver. Tables come from numbered SQL, never from AutoMigrate, so that it
// needs no migrator and no column types.
type sqliteDialector struct {
	gorm.Dialector
	pool *sql.DB
}

func (sqliteDialector) Name() string { return "sqlite" }

func (d sqliteDialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{
		QueryClauses: []string{"SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT"}, // no FOR: there are no row locks
	})
	return nil
}

func (sqliteDialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { _ = w.WriteByte('?') }

func (sqliteDialector) QuoteTo(w clause.Writer, name string) {
	_, _ = w.WriteString(`"` + name + `"`)
}

func (sqliteDialector) Explain(text string, vars ...any) string {
	return logger.ExplainSQL(text, nil, `"`, vars...)
}
