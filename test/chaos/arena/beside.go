//go:build linux

package arena

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// StaleOwners runs stale owners that write to store and lock until ctx ends, without the edges.
func (a *Arena) StaleOwners(ctx context.Context) error {
	driver, dsn := a.StoreDSN()
	s := a.lockService()
	switch {
	case a.Redis != nil:
		s.Addr = a.Redis.Addr
	case a.Quorum != nil:
		s.Addr = strings.Join(a.quorumAddrs(), ",")
	case a.ZooKeeper != nil:
		s.Addr = strings.Join(a.ZooKeeper.Addrs(), ",")
	case a.LockStore != nil:
		s.Addr = a.LockStore.DSNOf("root", "", Database)
	case a.Store != nil:
		s.Addr = dsn
	}
	args := append([]string{"-dir", a.Dir, "-driver", driver, "-dsn", dsn}, s.Args()...)
	return a.beside(ctx, "stale", a.stale, args, func(int) {})
}

// lockService is what keeps the locks of the cell, over the edges. Programs beside the replicas have tables of their own where it
// is the store.
func (a *Arena) lockService() dial.Service {
	hubs := a.locks
	if len(hubs) == 0 {
		hubs = a.stores
	}
	var addrs []string
	for _, h := range hubs {
		addrs = append(addrs, h.addr())
	}
	s := dial.Service{Kind: a.Cell.Lock, Addr: strings.Join(addrs, ",")}
	switch a.Cell.Lock {
	case Lease, Row:
		s.Kind, s.Mode = "mysql", a.Cell.Lock
	case MariaDB:
		s.Kind, s.Mode = "mysql", Lease
	case SQLite:
		s.Addr = a.SQLite
	}
	if s.Kind == "mysql" {
		s.Addr = fmt.Sprintf("%s@tcp(%s)/%s", Account, addrs[0], Database)
	}
	return s
}

// Hold runs programs that acquire locks beside each replica, over its edges, until ctx ends. Holders try; waiters wait, and
// one of them is killed now and then.
func (a *Arena) Hold(ctx context.Context) error {
	s := a.lockService()
	failed := make([]error, 2*len(a.Replicas))
	var running sync.WaitGroup
	for i, r := range a.Replicas {
		args := append([]string{"-dir", a.Dir, "-id", r.ID, "-ttl", LockTTL.String()}, s.Args()...)
		running.Go(func() {
			failed[2*i] = a.beside(ctx, "holder-"+r.ID, a.holder, append(args, "-number", strconv.Itoa(i)), func(pid int) { r.runsBeside("holder", pid) })
		})
		running.Go(func() { failed[2*i+1] = a.waiters(ctx, r, args, time.Duration(i)*killWaiter/3) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// killWaiter is after how long a program that waits is killed: each third of that one dies.
const killWaiter = 18 * time.Second

// waiters runs one program that waits after the other.
//
//  1. start it, and wait until ctx ends or its time is over
//  2. kill it, as it holds or waits, and begin again
func (a *Arena) waiters(ctx context.Context, r *Replica, args []string, first time.Duration) error {
	for n, life := 0, killWaiter-first; ctx.Err() == nil; n, life = n+1, killWaiter {
		living, kill := context.WithTimeoutCause(ctx, life, errKilled)
		err := a.beside(living, fmt.Sprintf("waiter-%s-%d", r.ID, n), a.waiter, append(args, "-number", strconv.Itoa(n)), func(pid int) { r.runsBeside("waiter", pid) })
		kill()
		if err != nil {
			return err
		}
	}
	return nil
}

// errKilled is why the context of a program that is to be killed ends.
var errKilled = errors.New("it is to be killed")

// beside runs a program until ctx ends, registers its process, and waits for its end. An end before that is an
// error. A context that ends with errKilled kills it.
func (a *Arena) beside(ctx context.Context, name, program string, args []string, started func(pid int)) error {
	log, err := os.Create(filepath.Join(a.Dir, history.LogsDir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := servers.Start(cmd); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	started(cmd.Process.Pid)
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	select {
	case err := <-gone:
		return fmt.Errorf("%s: it ended by itself, %s says why: %w", name, log.Name(), err)
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errKilled) {
		err := cmd.Process.Kill()
		<-gone
		return err
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-gone
}
