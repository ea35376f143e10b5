package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

type mysqlDialect struct {
	isolate bool   // the handle is the caller's: each transaction asks for READ COMMITTED itself
	address string // of what Open opened
}

func (mysqlDialect) name() Dialect { return MySQL }

func (mysqlDialect) words() []string {
	return []string{
		"{now}", mysqlNow, "{for_update}", " FOR UPDATE", "{skip_locked}", " SKIP LOCKED", "{share}", " LOCK IN SHARE MODE", "{insert_ignore}", "INSERT IGNORE INTO", "{values}", "",
		"{by_key}", " FORCE INDEX (PRIMARY)", "{delete}", "DELETE t FROM", "{index}", " FORCE INDEX (", "{end}", ")",
		"{walk}", " FORCE INDEX (", "{walked}", ")",
	}
}

func (mysqlDialect) gorm(db *sql.DB) gorm.Dialector {
	return gormmysql.New(gormmysql.Config{Conn: db, SkipInitializeWithVersion: true})
}

func (d mysqlDialect) check(t *tx, opened bool) error {
	var version string
	if found, err := t.one("SELECT VERSION()", nil, &version); err != nil || !found {
		return fmt.Errorf("reading the server's version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	var answer *mysql.MySQLError
	if _, err := t.exec("SELECT 1 FROM lockstep_there_is_no_such_table"); !errors.As(err, &answer) {
		return fmt.Errorf("the driver's errors are %T, and must be those of github.com/go-sql-driver/mysql: a deadlock and a broken statement could not be told apart", err)
	} else if answer.Number == 1046 {
		return errors.New("the DSN names no database: write its name behind the slash, as in user:password@tcp(host:3306)/name")
	}
	settings := map[string]string{}
	err := t.query(`SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode', 'autocommit', 'sql_select_limit', 'sql_safe_updates',
		'tx_read_only', 'transaction_read_only', 'tx_isolation', 'transaction_isolation', 'max_allowed_packet')`, nil, func(scan func(...any) error) error {
		var name, value string
		err := scan(&name, &value)
		settings[name] = value
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the session's settings: %w", err)
	}
	return checkSession(settings)
}

// checkSession names the setting of a session that the store cannot work with, and what to write.
func checkSession(settings map[string]string) error {
	mode := settings["sql_mode"]
	switch modes := strings.Split(mode, ","); {
	case !strings.Contains(mode, "STRICT_"):
		return fmt.Errorf("sql_mode %q is not strict, values would be cut silently: add STRICT_TRANS_TABLES to sql_mode", mode)
	case slices.Contains(modes, "EMPTY_STRING_IS_NULL"):
		return fmt.Errorf("sql_mode %q makes NULL of empty text: remove EMPTY_STRING_IS_NULL from sql_mode", mode)
	}
	if settings["autocommit"] == "OFF" {
		return errors.New("autocommit is off: remove autocommit=0 from the DSN")
	}
	if settings["sql_safe_updates"] == "ON" {
		return errors.New("sql_safe_updates is on, and refuses statements without a key: remove sql_safe_updates from the DSN")
	}
	for _, name := range []string{"tx_read_only", "transaction_read_only"} {
		if settings[name] == "ON" {
			return fmt.Errorf("%s is on: remove it from the DSN", name)
		}
	}
	for _, name := range []string{"tx_isolation", "transaction_isolation"} {
		if settings[name] == "READ-UNCOMMITTED" {
			return fmt.Errorf("%s is READ-UNCOMMITTED, and would show what others roll back: write READ-COMMITTED in the DSN, or remove it", name)
		}
	}
	if limit, err := strconv.ParseUint(settings["sql_select_limit"], 10, 64); err == nil && limit < 1<<32-1 {
		return fmt.Errorf("sql_select_limit is %d, and cuts answers silently: remove it from the DSN", limit)
	}
	if packet, err := strconv.Atoi(settings["max_allowed_packet"]); err == nil && packet < leastPacket {
		return fmt.Errorf("max_allowed_packet of the server is %d, and must be %d or more", packet, leastPacket)
	}
	return nil
}

// leastPacket is what one statement of ours may take: maxBytes, of which each may take two, and the rest.
const leastPacket = 3 * maxBytes

func (mysqlDialect) nap() time.Duration { return 250 * time.Millisecond }

func (mysqlDialect) checkPool(*tx, *sql.DB) error { return nil }

// checkVersion knows "8.0.36-0ubuntu", "10.11.6-MariaDB-1" and "5.5.5-10.6.1-MariaDB".
func checkVersion(version string) error {
	least, name := [3]int{8, 0, 16}, "MySQL"
	text := version
	if strings.Contains(version, "MariaDB") {
		least, name = [3]int{10, 6, 0}, "MariaDB"
		text = strings.TrimPrefix(text, "5.5.5-")
	}
	number, _, _ := strings.Cut(text, "-")
	for i, part := range strings.SplitN(number, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("server version %q cannot be read", version)
		}
		if n > least[i] {
			return nil
		}
		if n < least[i] {
			return fmt.Errorf("server version %q is too old: %s %d.%d.%d or later is needed", version, name, least[0], least[1], least[2])
		}
	}
	return nil
}

func (d mysqlDialect) begin(ctx context.Context, conn *sql.Conn) error {
	if d.isolate {
		if _, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "START TRANSACTION")
	return err
}

// commit knows the outcome only when the server answered that it undid the transaction, or when
// nothing was sent.
func (d mysqlDialect) commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	var answer *mysql.MySQLError
	switch {
	case err == nil, errors.Is(err, driver.ErrBadConn):
		return err
	case errors.As(err, &answer) && collided(answer.Number):
		return err
	}
	return fmt.Errorf("%w: %w", errUnknownCommit, err)
}

// single saves the two round trips of a transaction.
func (mysqlDialect) single(ctx context.Context, s *Store, conn *sql.Conn, fn func(t *tx) error) error {
	return fn(s.within(ctx, conn))
}

// inTransaction: a savepoint that is set outside of a transaction is not there for the next statement.
func (mysqlDialect) inTransaction(t *tx) (bool, error) {
	if _, err := t.exec("SAVEPOINT lockstep_in_transaction"); err != nil {
		return false, err
	}
	_, err := t.exec("RELEASE SAVEPOINT lockstep_in_transaction")
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == 1305 { // it does not exist
		return false, nil
	}
	return err == nil, err
}

func (mysqlDialect) joined(*tx) error { return nil }

// alone holds a lock of the server for this database and prefix. Each statement commits at once, as
// DDL does anyway.
func (mysqlDialect) alone(ctx context.Context, s *Store, fn func(t *tx) error) error {
	const name = "SHA2(CONCAT('lockstep.migrate.', DATABASE(), '.', ?), 256)"
	return s.autocommit(ctx, "migrate", func(t *tx) error {
		for granted := false; !granted; {
			var answer sql.NullInt64
			if _, err := t.one("SELECT GET_LOCK("+name+", 3)", []any{s.prefix}, &answer); err != nil {
				return err
			}
			granted = answer.Int64 == 1
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			release := s.within(ctx, t.conn)
			var answer sql.NullInt64
			_, _ = release.one("SELECT RELEASE_LOCK("+name+")", []any{s.prefix}, &answer) // it also ends with the connection
		}()
		return fn(t)
	})
}

func (mysqlDialect) hasTable(t *tx, name string) (bool, error) {
	var n int
	return t.one("SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", []any{name}, &n)
}

// mysqlNow depends on no session time zone. UTC_TIMESTAMP is fixed when the statement starts.
const mysqlNow = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

func (mysqlDialect) now(t *tx) (time.Time, error) {
	var n int64
	_, err := t.one("SELECT "+mysqlNow, nil, &n)
	return fromMicros(n), err
}

func (mysqlDialect) noTable(err error) bool {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number == 1146
}

func (mysqlDialect) hasColumn(err error) bool {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number == 1060
}

func (mysqlDialect) readsOnly(err error) bool {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number == 1792
}

func (mysqlDialect) fault(err error) fault {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch {
		case collided(answer.Number), closing(answer.Number):
			return faultPassing
		}
		return faultNone
	}
	var network net.Error
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return faultPassing
	}
	return faultNone
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

func (d mysqlDialect) unreachable(err error) error {
	if d.address == "" {
		return err
	}
	return fmt.Errorf("mysql at %s: %w", d.address, err)
}

// args turns strings into bytes: every text column is binary, and bytes are sent as such, whatever
// character sets the caller's connection has.
func (mysqlDialect) args(args []any) []any {
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
