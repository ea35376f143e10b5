// Package sqllock keeps locks in a SQL database: MySQL ≥ 8.0.16, MariaDB ≥ 10.6, or a SQLite file. It needs
// database/sql only.
//
// # Modes
//
// Lease: a row in lock_leases2 is a held lock, alone, shared or up to a limit, and one in lock_places waits for it. Both belong
// to a session, whose row in lock_sessions2 is renewed by one statement, however many locks it holds. The clock of the database
// decides expiry. What grants, frees or queues is one transaction, which locks the row of the namespace in lock_marks, so that
// one follows the other: who frees a key makes the first of its places, if its session lives, the next holder. Sessions of the
// same process are told; others look, with one query for a thousand keys and the more often the sooner their turn may come; on
// SQLite they look when its files were written. A session that has expired and is in the way is reaped: marked as ended, which
// is final, and its rows deleted. If the clock is set back, a session whose process has ended keeps its keys for one TTL more.
//
// Row (MySQL and MariaDB): an open transaction holds SELECT … FOR UPDATE on the row of the key, so a lock is
// free as soon as its connection is closed, or was silent for the TTL (wait_timeout). The holder inserts its
// name into another table and does not commit; others read it with READ UNCOMMITTED, so the name disappears with the
// lock. A waiter asks for the row lock and waits at the server, for 2 s at a time, so waiters are served without order.
// Row locks cannot be released one by one, so each key that is held or waited for has a connection of its own, and one more
// belongs to the session, which ends with it: this mode is for few locks. The limit of the handle on open
// connections and the server's max_connections must leave room, and a killed connection frees its key before
// the holder learns of it: see [driver.Caps].
//
// The row of a key stays while the key is in use, and is deleted once nobody has used it for some seconds. A session keeps
// connections for the next keys, as many as it used at once since the renewal before the last: to take a key that was used a moment
// ago and to release it are a statement each.
//
// The two modes do not exclude each other: all programs that share keys use the same mode.
//
// A SQLite file that has locks alone needs no synchronous=FULL: a power loss that undoes the last writes ends the holders, too, and
// tokens of later holders are above the clock. With NORMAL no commit waits for the disk. A handle of some connections lets sessions
// read while another waits for its turn to write.
//
// # Tokens
//
// In mode lease, a token is the larger of the database's clock in µs and the namespace's highest token, plus one, by one
// UPDATE in the transaction that grants, which mints some more for the turns of the same session that follow. The numbers of places are of the same row. In mode row it is the AUTO_INCREMENT number of the holder's row, which is
// inserted while the row of the key is locked; a session begins where the namespace's committed mark is, and raises that before
// a token comes near it. So tokens grow although free keys have no state, and although the clock may be set back.
package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Mode is the way in which a lock is held.
type Mode string

const (
	Lease Mode = "lease" // a row exists
	Row   Mode = "row"   // a transaction holds a row
)

// Options of a driver. The zero value is fine.
type Options struct {
	Mode        Mode   // default Lease
	TablePrefix string // of the tables, [a-z0-9_], at most 32 bytes; default "lockstep_"
}

// openLimit ends an Open whose context would wait for ever.
const openLimit = 5 * time.Second

// Driver opens lock sessions in one database.
type Driver struct {
	db      *sqlkit.DB
	dialect dialect
	mode    Mode
	err     error // of the options
	apart   bool  // for tests: its sessions are told nothing in the process
	file    sqliteFile
}

var _ driver.Driver = (*Driver)(nil)

var prefixPattern = regexp.MustCompile(`^[a-z0-9_]{0,32}$`)

// New returns a driver that uses db and does not close it. A nil db and invalid options, such as a mode that
// the dialect does not have, are errors of locks.New.
//
// New cannot bound how long a process that froze in a transaction keeps rows locked: set what [Open] sets, or
// use it.
func New(db *sql.DB, d Dialect, o Options) *Driver {
	if o.Mode == "" {
		o.Mode = Lease
	}
	if o.TablePrefix == "" {
		o.TablePrefix = "lockstep_"
	}
	drv := &Driver{mode: o.Mode}
	var known bool
	drv.dialect, known = dialects[d]
	switch {
	case db == nil:
		drv.err = errors.New("sqllock: New: the handle is nil")
	case !known:
		drv.err = fmt.Errorf("sqllock: dialect %q is neither %q nor %q", d, MySQL, SQLite)
	case o.Mode != Lease && o.Mode != Row:
		drv.err = fmt.Errorf("sqllock: mode %q is neither %q nor %q", o.Mode, Lease, Row)
	case o.Mode == Row && !drv.dialect.rows:
		drv.err = errors.New("sqllock: SQLite locks whole files, not rows; use mode lease")
	case !prefixPattern.MatchString(o.TablePrefix):
		drv.err = fmt.Errorf("sqllock: table prefix %q: only a-z, 0-9 and _, at most 32", o.TablePrefix)
	case d != MySQL && speaks(db, MySQL), d != SQLite && speaks(db, SQLite):
		drv.err = fmt.Errorf("sqllock: dialect %q: the handle is of another one, its driver is %T", d, db.Driver())
	default:
		drv.db = drv.dialect.open(db, o.TablePrefix)
	}
	return drv
}

// speaks reports whether the name of the handle's driver is that of a dialect. A driver in a wrapper has neither name.
func speaks(db *sql.DB, d Dialect) bool {
	return strings.Contains(fmt.Sprintf("%T", db.Driver()), string(d))
}

// Valid returns the error of the arguments of New.
func (d *Driver) Valid() error { return d.err }

// Caps says what a lock in this database guarantees.
func (d *Driver) Caps() driver.Caps {
	switch {
	case d.dialect.kit != nil && d.dialect.kit.Local():
		return driver.Caps{
			Name: "sqlite", FIFO: true, Shared: true, Limit: true, EarlyLoss: true, SingleHost: true,
			Note: "Excludes processes of one machine, which share one file on a local disk.",
		}
	case d.mode == Row:
		return driver.Caps{Name: "mysql-row", Volatile: true, Note: "A connection that ends, as all do with the server, frees its lock before the holder knows it. Each lock that is held or waited for needs a connection of its own. Waiters have no order."}
	}
	return driver.Caps{Name: "mysql-lease", FIFO: true, Shared: true, Limit: true, EarlyLoss: true, Note: "A step of the database's clock forward ends sessions early."}
}

// Close does nothing: the caller owns the handle.
func (d *Driver) Close() error { return nil }

// Open makes the tables if they are missing and starts a session.
func (d *Driver) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	if d.err != nil {
		return nil, d.err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("no answer in %v", openLimit))
	defer cancel()
	if err := d.db.Pool.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("sqllock: open: %w: %w", driver.ErrUnreachable, cause(ctx, err))
	}
	c := &session{
		DB: d.db, dialect: d.dialect, file: &d.file,
		namespace: o.Namespace, id: uuid.NewString(), owner: o.Owner, ttl: o.TTL,
	}
	err := d.db.Autocommit(ctx, func(t *sqlkit.Tx) error {
		for _, table := range d.dialect.tables() {
			if _, err := t.Exec(table); err != nil {
				return fmt.Errorf("make the tables: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, c.unknown("open", err)
	}
	if d.mode == Row {
		return openRow(ctx, c)
	}
	return d.openLease(ctx, c)
}

// mark makes the row of a namespace.
func mark(t *sqlkit.Tx, namespace string) error {
	_, err := t.Exec(`{insert_ignore} {marks} (namespace, token) VALUES (?, 0) {or_ignore}`, namespace)
	return err
}

// cause is err, or the cause of ctx if err is the end of ctx.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// failed is the error of the first statement of an operation: it says whether anything was sent.
func (s *session) failed(op string, err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return s.unknown(op, err)
}

// unknown is the error of a later statement.
func (s *session) unknown(op string, err error) error { return fmt.Errorf("sqllock: %s: %w", op, err) }
