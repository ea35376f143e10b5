package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

const (
	// restartBusy is how many milliseconds at a time writers wait for the readers of other processes.
	restartBusy = 10
	// restartPages is how many pages may be left to move into the database while writers wait. Any COMMIT may move as many.
	restartPages = 1000
	// restartNap is the longest pause between two tries.
	restartNap = 250 * time.Millisecond
)

// logGate bounds the write-ahead log of a SQLite file while views overlap. SQLite restarts the log only at a moment without
// readers, and overlapping views leave no such moment.
//
// While the log is larger than most:
//
//  1. New views wait until those in progress have ended, patience at most.
//  2. One of the waiting views moves the log into the database and empties it.
//  3. All views go on.
//
// The processes of a file see the same size: they wait at the same time, and one of them finds the log without readers.
//
// If something else reads the file for longer, such as a backup, views go on after patience, and wait again in a later
// period. Periods are those of the machine's clock, the same for all processes. They begin at four times patience, and are
// doubled twice.
//
// Writers never wait for views: most of the log is moved beside writers, and emptied in a turn of a writer, which a reader
// of another process extends by restartBusy at most.
type logGate struct {
	path     string
	most     int64
	patience time.Duration
	turns    sqlkit.Turns // nil: the writers of this process take none

	mu      sync.Mutex
	inside  int           // views in progress
	emptied bool          // one of the waiting views is emptying the log
	until   time.Time     // views wait until then; zero: they do not
	failed  int           // periods in a row in which the log could not be emptied
	tried   time.Time     // the beginning of the last of them
	changed chan struct{} // closed at each change
}

func newLogGate(log string, patience time.Duration, turns sqlkit.Turns) *logGate {
	return &logGate{path: log, most: sqlitefile.MostLog, patience: patience, turns: turns, changed: make(chan struct{})}
}

// lend calls once with a connection.
type lend func(ctx context.Context, once func(context.Context, *sql.Conn) error) error

// enter waits as long as views are held back; leave must be called. borrow is called when no view has a connection. A nil gate
// is always open.
func (g *logGate) enter(ctx context.Context, borrow lend) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	for {
		g.mu.Lock()
		held, until, changed := g.held(time.Now()), g.until, g.changed
		mine := held && g.inside == 0 && !g.emptied
		switch {
		case !held:
			g.inside++
		case mine:
			g.emptied = true
		}
		g.mu.Unlock()
		switch {
		case !held:
			return g.leave, nil
		case mine:
			rctx, cancel := context.WithDeadline(ctx, until)
			err := g.restart(rctx, borrow)
			failed := err != nil && rctx.Err() == nil // the disk is full, or the file was replaced: the views return that error
			cancel()
			g.change(func() {
				g.emptied = false
				if failed {
					g.until = time.Now()
				}
			})
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			continue
		}
		timer := time.NewTimer(min(time.Until(until), restartNap)) // another process may empty it
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return nil, err
		}
	}
}

func (g *logGate) leave() { g.change(func() { g.inside-- }) }

// change notifies the waiting views.
func (g *logGate) change(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what()
	if !g.until.IsZero() {
		close(g.changed)
		g.changed = make(chan struct{})
	}
}

// held reports whether views wait now.
func (g *logGate) held(now time.Time) bool {
	switch {
	case !g.large():
		g.until, g.failed, g.tried = time.Time{}, 0, time.Time{}
		return false
	case g.until.IsZero() && now.Truncate(g.period()).Equal(g.tried):
		return false
	case g.until.IsZero():
		g.until = now.Add(g.patience)
	case !now.Before(g.until):
		g.until = time.Time{}
		g.failed++
		g.tried = now.Truncate(g.period())
		return false
	}
	return true
}

func (g *logGate) large() bool {
	log, err := os.Stat(g.path)
	return err == nil && log.Size() > g.most
}

func (g *logGate) period() time.Duration { return 4 * g.patience << min(max(g.failed-1, 0), 2) }

// restart moves the log into the database and empties it, with as many tries as it takes until ctx ends. Between tries it has no
// connection, and writers and the readers of other processes go on.
func (g *logGate) restart(ctx context.Context, borrow lend) error {
	before, emptied := 0, false
	for n := 0; ; n++ {
		err := borrow(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
			before, emptied, err = g.try(ctx, conn, before)
			return err
		})
		if err != nil || emptied || !g.large() { // the last: another process has emptied it
			return err
		}
		if err := sqlkit.Pause(ctx, n, restartNap); err != nil {
			return err
		}
	}
}

// try returns how many pages it has moved; before is that of the last one.
func (g *logGate) try(ctx context.Context, conn *sql.Conn, before int) (moved int, emptied bool, err error) {
	var usual int
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&usual); err != nil {
		return before, false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", usual)); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", restartBusy)); err != nil {
		return before, false, err
	}
	// Beside writers, and as far as readers of other processes let it.
	_, pages, moved, err := checkpoint(ctx, conn, "PASSIVE")
	if err != nil || pages-moved > restartPages || moved-before > restartPages { // the last: as much may have come meanwhile
		return moved, false, err
	}
	if g.turns != nil {
		leave, err := g.turns.Enter(ctx) // it waits for one transaction at most
		if err != nil {
			return moved, false, err
		}
		defer leave()
	}
	busy, _, _, err := checkpoint(ctx, conn, "TRUNCATE")
	return moved, err == nil && !busy, err
}

// checkpoint returns how many pages the log has, and how many of them the database has, too.
func checkpoint(ctx context.Context, conn *sql.Conn, how string) (busy bool, pages, moved int, err error) {
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+how+")").Scan(&busy, &pages, &moved)
	return busy, pages, moved, err
}
