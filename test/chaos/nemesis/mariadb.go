//go:build linux

package nemesis

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// base is a MariaDB of the cell, as the store or as the lock service.
type base struct {
	name       string // in front of the names of its nemeses
	subject    subject
	fits       func(arena.Cell) bool
	down, slow []history.Kind
	server     func(*arena.Arena) *servers.MySQLServer
	rows       string // of one table that all replicas need; empty: none
}

var (
	storeBase = base{"mariadb", store, onMariaDB, storeDown, storeSlow, func(a *arena.Arena) *servers.MySQLServer { return a.Store }, "lockstep_jobs"}
	lockBase  = base{"lockdb", lock, onLockServer, lockDown, lockSlow, func(a *arena.Arena) *servers.MySQLServer { return a.LockStore }, ""}
)

// databases break MariaDB. As a store it is down for all replicas then, which may harm no session.
func databases() (all []Nemesis) {
	for _, b := range []base{storeBase, lockBase} {
		all = append(all,
			b.nemesis("killed", b.down, 10*time.Second, true, b.end((*servers.MySQLServer).Kill)),
			b.nemesis("restarted", b.down, 3*time.Second, true, b.end((*servers.MySQLServer).Stop)),
			b.nemesis("frozen", b.down, frozenFor, true, func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
				return freezeServer("MariaDB", b.server(a))
			}),
			b.nemesis("disk-full", b.down, 15*time.Second, true, b.fillDisk),
			b.nemesis("read-only", b.down, 10*time.Second, true, b.readOnly),
			b.nemesis("kill-connections", b.slow, 10*time.Second, false, b.killConnections),
			b.nemesis("few-connections", b.slow, 10*time.Second, false, b.fewConnections),
		)
		if b.rows != "" {
			all = append(all, b.nemesis("rows-locked", b.slow, 10*time.Second, false, b.lockRows))
		}
	}
	long := storeBase.nemesis("down-90s", storeDown, 90*time.Second, true, storeBase.end((*servers.MySQLServer).Kill))
	long.Long = true
	return append(all, long)
}

func (b base) nemesis(name string, kinds []history.Kind, hold time.Duration, spares bool, s strike) Nemesis {
	return Nemesis{Name: b.name + "-" + name, subject: b.subject, Kinds: kinds, Hold: hold, Spares: spares && b.subject == store, Fits: b.fits, Strike: s}
}

// end ends the server for the window.
func (b base) end(how func(*servers.MySQLServer)) strike {
	return func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		s := b.server(a)
		pid := s.PID()
		how(s)
		gone := state(pid) == ""
		return Struck{Heal: func(ctx context.Context) (bool, string, error) {
			err := s.Restart(context.WithoutCancel(ctx)) // it is started in any case
			return gone, fmt.Sprintf("process %d was gone, %d runs", pid, s.PID()), err
		}}, nil
	}
}

// root opens the server without the edges, and replica as the replicas do.
func (b base) root(a *arena.Arena) (*sql.DB, error) {
	return open(b.server(a).DSNOf("root", "", arena.Database))
}

func (b base) replica(a *arena.Arena) (*sql.DB, error) {
	return open(b.server(a).DSNOf(arena.Account, "", arena.Database))
}

func open(dsn string) (*sql.DB, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	c.Timeout, c.ReadTimeout, c.Logger = 5*time.Second, 10*time.Second, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// readOnly refuses writes of all but administrators.
func (b base) readOnly(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	db, err := b.root(a)
	if err != nil {
		return Struck{}, err
	}
	if _, err := db.ExecContext(ctx, "SET GLOBAL read_only = 1"); err != nil {
		return Struck{}, errors.Join(err, db.Close())
	}
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		refused := b.try(ctx, a, "CREATE TABLE chaos_probe (x INT)")
		_, err := db.ExecContext(ctx, "SET GLOBAL read_only = 0")
		return refused != nil && strings.Contains(refused.Error(), "read-only"), fmt.Sprintf("a replica's write: %v", refused), errors.Join(err, db.Close())
	}}, nil
}

// try executes a statement on a new connection of the replicas' account.
func (b base) try(ctx context.Context, a *arena.Arena, statement string) error {
	db, err := b.replica(a)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// killConnections kills all connections of replicas, several times a second.
func (b base) killConnections(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	var killed atomic.Int64
	stop, err := b.repeat(ctx, a, 300*time.Millisecond, func(ctx context.Context, db *sql.DB) error {
		n, err := killAll(ctx, db)
		killed.Add(n)
		return err
	})
	if err != nil {
		return Struck{}, err
	}
	return Struck{Heal: func(context.Context) (bool, string, error) {
		err := stop()
		return killed.Load() > 0, fmt.Sprintf("%d connections were killed", killed.Load()), err
	}}, nil
}

func killAll(ctx context.Context, db *sql.DB) (n int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = ?", arena.Account)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err == nil { // it may be gone by itself
			n++
		}
	}
	return n, rows.Err()
}

// fewConnections lets the replicas have two connections together.
func (b base) fewConnections(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	db, err := b.root(a)
	if err != nil {
		return Struck{}, err
	}
	limit := func(ctx context.Context, n int) error {
		_, err := db.ExecContext(ctx, fmt.Sprintf("ALTER USER %s WITH MAX_USER_CONNECTIONS %d", arena.Account, n))
		return err
	}
	if err := limit(ctx, 2); err != nil {
		return Struck{}, errors.Join(err, db.Close())
	}
	if _, err := killAll(ctx, db); err != nil {
		return Struck{}, errors.Join(err, limit(ctx, 0), db.Close())
	}
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		var refused error
		for end := time.Now().Add(3 * time.Second); refused == nil && time.Now().Before(end); {
			refused = b.try(ctx, a, "SELECT 1")
		}
		return refused != nil, fmt.Sprintf("one more connection: %v", refused), errors.Join(limit(ctx, 0), db.Close())
	}}, nil
}

// lockRows locks rows that all replicas need, for longer than any timeout, and unlocks them in between.
func (b base) lockRows(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	var held, waited atomic.Int64
	stop, err := b.repeat(ctx, a, 700*time.Millisecond, func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // which unlocks them
		if _, err := tx.ExecContext(ctx, "SELECT name FROM "+b.rows+" FOR UPDATE"); err != nil {
			return nil //nolint:nilerr // replicas hold some of them: another time
		}
		held.Add(1)
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
		var n int64
		err = db.QueryRowContext(context.WithoutCancel(ctx), "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n)
		waited.Add(n)
		return err
	})
	if err != nil {
		return Struck{}, err
	}
	return Struck{Heal: func(context.Context) (bool, string, error) {
		err := stop()
		return held.Load() > 0 && waited.Load() > 0, fmt.Sprintf("held all rows of %s %d times; %d transactions waited for them", b.rows, held.Load(), waited.Load()), err
	}}, nil
}

// repeat calls f until the returned function is called, which returns its last error: ctx is for the
// strike, and its end does not end what it began.
func (b base) repeat(ctx context.Context, a *arena.Arena, pause time.Duration, f func(context.Context, *sql.DB) error) (stop func() error, err error) {
	db, err := b.root(a)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	var last error
	working.Go(func() {
		for {
			if err := f(ctx, db); err != nil && ctx.Err() == nil {
				last = err
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
	return func() error {
		cancel()
		working.Wait()
		return errors.Join(last, db.Close())
	}, nil
}
