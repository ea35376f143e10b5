package store

import (
	"database/sql"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// gormDialector is what gorm calls a dialect, on a pool or none.
func gormDialector(d sqlkit.Dialect, pool *sql.DB) gorm.Dialector {
	if d.Name() == SQLite {
		return sqliteDialector{pool}
	}
	return gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true})
}

// sqliteDialector lets gorm work on a pool of any SQLite driver. Tables come from numbered SQL,
// never from AutoMigrate, so that it needs no column types.
type sqliteDialector struct{ pool *sql.DB }

func (sqliteDialector) Name() string { return "sqlite" }

func (d sqliteDialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{
		CreateClauses: []string{"INSERT", "VALUES", "ON CONFLICT"},
		QueryClauses:  []string{"SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT"}, // no FOR: there are no row locks
		UpdateClauses: []string{"UPDATE", "SET", "FROM", "WHERE"},
		DeleteClauses: []string{"DELETE", "FROM", "WHERE"},
	})
	return nil
}

func (d sqliteDialector) Migrator(db *gorm.DB) gorm.Migrator {
	return migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d}}
}

func (sqliteDialector) DataTypeOf(*schema.Field) string { return "" }

func (sqliteDialector) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "NULL"}
}

func (sqliteDialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { _ = w.WriteByte('?') }

func (sqliteDialector) QuoteTo(w clause.Writer, name string) {
	_, _ = w.WriteString(`"` + name + `"`)
}

func (sqliteDialector) Explain(text string, vars ...any) string {
	return logger.ExplainSQL(text, nil, `"`, vars...)
}
