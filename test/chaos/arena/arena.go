//go:build linux

// Package arena is one cell of a chaos run: three replicas as processes, real servers of the run, an edge
// between each replica and each server that can be disconnected, clients, workers that take tasks over HTTP, an
// application with a ledger of its own, and an audit of the store.
//
// Edges are TCP proxies on loopback and need no rights. It reads /proc, so it runs on Linux.
package arena

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/clock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Times of the replicas' configuration: short, so that windows are.
const (
	SessionTTL   = 3 * time.Second
	LockTTL      = 3 * time.Second
	DrainTimeout = 5 * time.Second
	MaxClockSkew = 2 * time.Second
)

// Options change what Open makes. The zero Options are fine.
type Options struct {
	Replicas int    // default 3
	WhenDown string // store | wait; default store
	// Binary builds the scheduler; default Race. It is a file that nothing else runs.
	Binary func(t testing.TB) string
	// Beside builds StaleSource and HolderSource from the same source; default: today's.
	Beside func(t testing.TB, source string) string
	// Retention is how long ended rows are kept; default: longer than any run.
	Retention time.Duration
	// Clocks gives each replica, MariaDB, ZooKeeper and one Redis of a quorum a wall clock that can be stepped. A Binary of
	// your own must then be built with test/chaos/clock.
	Clocks bool
}

// Arena is a cell that is set up. Parts that it does not have are nil or empty.
type Arena struct {
	Cell      Cell
	Dir       string // of the artifacts
	Replicas  []*Replica
	Workers   []*Worker
	Store     *servers.MySQLServer
	LockStore *servers.MySQLServer // of lease and row
	Redis     *servers.RedisServer
	ZooKeeper *servers.Ensemble
	Quorum    []*servers.RedisServer
	OneClock  *servers.Clock // of the first of Quorum
	SQLite    string         // file
	Disk      *servers.Disk  // of the SQLite file

	binary                string // programs
	stale, holder, waiter string
	command               string // of the jobs
	locked                string // the command under "locks exec"
	worker                string // takes tasks over HTTP
	raced                 bool   // the replicas have the race detector
	effects               string // file
	tmp                   string // of the replicas
	whenDown              string
	retention             time.Duration
	calendars             []history.Calendar
	ledger                *ledger
	stores, locks         []*hub
	processes             *history.Log[history.Process]
	http                  *http.Client
	closing               chan struct{}
	acknowledged          atomic.Int64 // tasks
	asked                 sync.Map     // kinds of calls, and whether one has worked
	struckAtWork          atomic.Bool  // a run of locks exec was, while its command worked

	mu      sync.Mutex
	faults  []error // of the arena itself
	version int     // of the configuration
}

// Account is the account of the replicas at MariaDB: not root, so that read_only and limits of users apply to
// them. Database has their tables.
const (
	Account  = "lockstep"
	Database = "chaos"
)

// Open sets a cell up, with its artifacts in dir, and returns when every replica is ready. The test fails at
// once if it cannot; at its end everything is stopped.
func Open(t testing.TB, c Cell, dir string, o Options) *Arena {
	t.Helper()
	a := &Arena{
		Cell: c, Dir: dir, calendars: calendarsOfRun(time.Now()), whenDown: cmp.Or(o.WhenDown, "store"), retention: o.Retention,
		effects: filepath.Join(dir, history.EffectsFile), tmp: filepath.Join(dir, "tmp"),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 5 * time.Second}}, closing: make(chan struct{}),
	}
	switch {
	case o.Binary != nil:
	case o.Clocks:
		o.Binary = RaceWithClock
	default:
		o.Binary = Race
	}
	if o.Beside == nil {
		o.Beside = func(t testing.TB, source string) string { return program.Build(t, source) }
	}
	a.binary, a.command, a.locked, a.worker = o.Binary(t), program.Build(t, commandSource), program.Build(t, lockedSource), program.Build(t, workerSource)
	a.stale, a.holder, a.waiter = o.Beside(t, StaleSource), o.Beside(t, HolderSource), o.Beside(t, WaiterSource)
	a.raced = raced(t, a.binary)
	for _, folder := range []string{filepath.Join(dir, history.LogsDir), a.tmp} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	processes, err := history.OpenLog[history.Process](dir, history.ProcessesFile)
	if err != nil {
		t.Fatal(err)
	}
	a.processes = processes
	t.Cleanup(func() { a.close(t) })
	if a.ledger, err = openLedger(dir, a.note); err != nil {
		t.Fatal(err)
	}
	a.openServers(t, o)
	for i := range cmp.Or(o.Replicas, 3) {
		r := &Replica{ID: fmt.Sprintf("r%d", i+1), arena: a, address: servers.FreeAddress(t)}
		if o.Clocks {
			if r.Clock, err = clock.New(filepath.Join(dir, r.ID+".clock")); err != nil {
				t.Fatal(err)
			}
		}
		a.Replicas = append(a.Replicas, r)
	}
	if err := errors.Join(a.openEdges(), a.openWorkers()); err != nil {
		t.Fatal(err)
	}
	text := a.configuration(0)
	for _, r := range a.Replicas {
		r.Config, r.first = filepath.Join(dir, r.ID+".yaml"), filepath.Join(dir, r.ID+"-first.yaml")
		for _, file := range []string{r.Config, r.first} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := a.start(ctx); err != nil {
		t.Fatal(err)
	}
	return a
}

// start makes the tables, with the audit, and starts the replicas.
func (a *Arena) start(ctx context.Context) error {
	if err := a.migrate(ctx); err != nil {
		return err
	}
	if err := a.installAudit(ctx); err != nil {
		return err
	}
	for _, r := range a.Replicas {
		if err := r.Start(); err != nil {
			return err
		}
	}
	for _, r := range a.Replicas {
		if err := r.firstReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// migrate makes the tables with the program, without the edges.
func (a *Arena) migrate(ctx context.Context) error {
	driver, dsn := a.StoreDSN()
	file := filepath.Join(a.Dir, "migrate.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "version: 1\nstore: {driver: %s, dsn: %q}\n", driver, dsn), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, a.binary, "migrate", "up", "-c", file).CombinedOutput(); err != nil {
		return fmt.Errorf("migrate: %w\n%s", err, out)
	}
	return nil
}

// WaitReady returns when every replica has answered that it is ready.
func (a *Arena) WaitReady(ctx context.Context) (err error) {
	for _, r := range a.Replicas {
		err = errors.Join(err, r.WaitReady(ctx))
	}
	return err
}

// Replica is the one with an id; nil: there is none.
func (a *Arena) Replica(id string) *Replica {
	for _, r := range a.Replicas {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// note keeps an error of the arena: the run is invalid then.
func (a *Arena) note(err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, err)
}

// Err is an error of the arena, such as a log that could not be written.
func (a *Arena) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.faults...)
}

// close stops the processes of the arena; servers end with the test.
func (a *Arena) close(t testing.TB) {
	close(a.closing)
	for _, r := range a.Replicas {
		r.Untwin()
		if r.Alive() {
			_ = r.KillGroup() // it may just have ended
		}
		r.mu.Lock()
		r.wanted = false
		r.mu.Unlock()
	}
	for _, r := range a.Replicas {
		r.joining.Wait()
		if r.Alive() { // it was being started
			_ = r.KillGroup()
			r.joining.Wait()
		}
	}
	for _, pid := range a.commands() {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
	if err := a.closeWorkers(); err != nil {
		t.Log(err)
	}
	for _, h := range append(a.stores, a.locks...) {
		if err := h.close(); err != nil {
			t.Log(err)
		}
	}
	var err error
	if a.ledger != nil {
		err = a.ledger.close()
	}
	a.http.CloseIdleConnections()
	if err := errors.Join(err, a.processes.Close()); err != nil {
		t.Error(err)
	}
}
