package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/migrations"
)

// MySQL is the dialect of MySQL and MariaDB, with the driver github.com/go-sql-driver/mysql.
type MySQL struct {
	Isolation string // that each transaction asks for; empty: its connection has the one that is wanted
}

func (MySQL) Name() migrations.Dialect { return migrations.MySQL }

func (MySQL) Words() []string {
	return []string{
		"{now}", mysqlNow, "{for_update}", " FOR UPDATE", "{skip_locked}", " SKIP LOCKED", "{share}", " LOCK IN SHARE MODE", "{insert_ignore}", "INSERT IGNORE INTO", "{or_ignore}", "", "{values}", "",
		"{by_key}", " FORCE INDEX (PRIMARY)", "{delete}", "DELETE t FROM", "{index}", " FORCE INDEX (", "{end}", ")",
		"{walk}", " FORCE INDEX (", "{walked}", ")",
	}
}

// Args turns strings into bytes: every text column is binary, and bytes are sent as such, whatever
// character sets the caller's connection has.
func (MySQL) Args(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = []byte(text)
		} else if b, ok := bytesOf(arg); ok {
			args[i] = b
		}
	}
	return args
}

func (MySQL) OnConflict(_ string, columns []string) string {
	return " ON DUPLICATE KEY UPDATE " + assign(columns, "?=VALUES(?)")
}

func (MySQL) AtOnce(n int) int { return n }

// List is made of one JSON text, whatever number of rows there are. It declares what its columns are, so that a prepared
// statement has them too, and STRAIGHT_JOIN reads it first: rows are locked in the order of the list. A connection may have
// been told another character set than that of JSON.
func (MySQL) List(columns []Column, _ int, update bool) string {
	types := map[ColumnType]string{ColumnInt: "BIGINT", ColumnName: "VARBINARY(255)", ColumnText: "LONGTEXT"}
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = fmt.Sprintf("%s %s PATH '$.%[1]s' ERROR ON ERROR", c.Name, types[c.Type])
	}
	return "JSON_TABLE(CONVERT(? USING utf8mb4), '$[*]' COLUMNS (" + strings.Join(all, ", ") + ")) v STRAIGHT_JOIN "
}

func (MySQL) ListFirst(bool) bool { return true }

// ListArgs leaves out what is NULL: MySQL takes a JSON null for an integer that is wrong.
func (MySQL) ListArgs(columns []Column, rows [][]any, _ int) ([]any, error) {
	text := []byte{'['}
	for i, row := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '{')
		for k, c := range columns {
			if row[k] == nil && c.Type == ColumnInt {
				continue
			}
			if text[len(text)-1] != '{' {
				text = append(text, ',')
			}
			text = append(strconv.AppendQuote(text, c.Name), ':')
			var err error
			if text, err = appendJSON(text, c.Type, row[k]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		text = append(text, '}')
	}
	return []any{append(text, ']')}, nil
}

// ListValue: JSON is UTF-8, and texts are whatever a program wrote.
func (MySQL) ListValue(c Column) string {
	if c.Type == ColumnText {
		return "UNHEX(v." + c.Name + ")"
	}
	return "v." + c.Name
}

func appendJSON(text []byte, kind ColumnType, value any) ([]byte, error) {
	switch v := value.(type) {
	case int:
		return strconv.AppendInt(text, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(text, v, 10), nil
	case string:
		switch {
		case kind == ColumnText:
			return append(hex.AppendEncode(append(text, '"'), []byte(v)), '"'), nil
		case kind == ColumnName && utf8.ValidString(v):
			b, err := json.Marshal(v)
			return append(text, b...), err
		}
	}
	return nil, fmt.Errorf("%T %q is no %s", value, value, kind)
}

func (d MySQL) Begin(ctx context.Context, conn *sql.Conn) error {
	if d.Isolation != "" {
		if _, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL "+d.Isolation); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "START TRANSACTION")
	return err
}

// BeginRead: what reads only committed rows sees others in each statement.
func (MySQL) BeginRead(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
	if err != nil { // the next transaction of the connection would have that level
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// Commit knows the outcome only when the server answered that it undid the transaction, or when
// nothing was sent.
func (MySQL) Commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	switch {
	case err == nil, errors.Is(err, driver.ErrBadConn), collided(MySQLNumber(err)):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownCommit, err)
}

func (MySQL) LocksRows() bool { return true }

// Alone holds a lock of the server for this database and prefix. Each statement commits at once, as
// DDL does anyway.
func (MySQL) Alone(ctx context.Context, db *DB, name string, fn func(t *Tx) error) error {
	const lock = "SHA2(CONCAT(?, '.', DATABASE(), '.', ?), 256)"
	return db.Autocommit(ctx, func(t *Tx) error {
		for granted := false; !granted; {
			var answer sql.NullInt64
			if _, err := t.One("SELECT GET_LOCK("+lock+", 3)", []any{name, db.Prefix}, &answer); err != nil {
				return err
			}
			granted = answer.Int64 == 1
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			var answer sql.NullInt64
			_, _ = db.With(ctx, t.Conn).One("SELECT RELEASE_LOCK("+lock+")", []any{name, db.Prefix}, &answer) // it also ends with the connection
		}()
		return fn(t)
	})
}

// InTransaction: a savepoint that is set outside of a transaction is not there for the next statement.
func (MySQL) InTransaction(t *Tx) (bool, error) {
	if _, err := t.Exec("SAVEPOINT lockstep_in_transaction"); err != nil {
		return false, err
	}
	_, err := t.Exec("RELEASE SAVEPOINT lockstep_in_transaction")
	if MySQLNumber(err) == 1305 { // it does not exist
		return false, nil
	}
	return err == nil, err
}

func (MySQL) Join(*Tx, string) error { return nil }

func (MySQL) Local() bool { return false }

func (MySQL) HasTable(t *Tx, name string) (bool, error) {
	var n int
	return t.One("SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", []any{name}, &n)
}

// mysqlNow depends on no session time zone. UTC_TIMESTAMP is fixed when the statement starts.
const mysqlNow = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

func (MySQL) Now(t *Tx) (time.Time, error) {
	var n int64
	_, err := t.One("SELECT "+mysqlNow, nil, &n)
	return micros(n), err
}

func (MySQL) Fault(err error) Fault {
	number := MySQLNumber(err)
	var network net.Error
	switch {
	case collided(number):
		return FaultConflict
	case closing(number):
		return FaultLost
	case number != 0:
		return FaultNone
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return FaultLost
	}
	return FaultNone
}

func (MySQL) Answer(err error) Answer {
	switch MySQLNumber(err) {
	case 1146:
		return AnswerNoTable
	case 1060:
		return AnswerHasColumn
	case 1792:
		return AnswerReadsOnly
	}
	return AnswerOther
}

func (MySQL) Nap() time.Duration { return 250 * time.Millisecond }

// MySQLNumber is that of an error which the server answered with; 0 if err is something else.
func MySQLNumber(err error) uint16 {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return answer.Number
	}
	return 0
}

// collided: the server undid the statement or the transaction because of another one. 1205 lock
// wait timeout, 1213 deadlock, 1020 snapshot isolation of MariaDB 11.
func collided(number uint16) bool {
	switch number {
	case 1205, 1213, 1020:
		return true
	}
	return false
}

// closing: the server or the connection ends, is full, or has become a read-only one.
func closing(number uint16) bool {
	switch number {
	case 1040, // too many connections
		1021, 1026, 1030, 1114, // its disk is full
		1047,                         // a node of Galera without its cluster
		1053,                         // server shutdown in progress
		1079,                         // shutdown complete
		1129,                         // host is blocked
		1158, 1159, 1160, 1161, 1184, // network trouble as the server saw it
		1203, 1226, // too many connections of this user
		1290, 1792, 1836, // read only: a primary that was demoted
		1317, 1927, 3169, // interrupted, killed
		4031: // idle for too long
		return true
	}
	return false
}
