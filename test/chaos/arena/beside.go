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

	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// StaleOwners runs stale owners that write to store and lock until ctx ends, without the edges.
func (a *Arena) StaleOwners(ctx context.Context) error {
	driver, dsn := a.StoreDSN()
	s := dial.Service{}
	switch {
	case a.Redis != nil:
		s = dial.Service{Kind: "redis", Addr: a.Redis.Addr}
	case a.ZooKeeper != nil:
		s = dial.Service{Kind: "zookeeper", Addr: strings.Join(a.ZooKeeper.Addrs(), ",")}
	case a.LockStore != nil:
		s = dial.Service{Kind: "mysql", Addr: a.LockStore.DSNOf("root", "", Database), Mode: a.Cell.Lock}
	}
	args := append([]string{"-dir", a.Dir, "-driver", driver, "-dsn", dsn}, s.Args()...)
	return a.beside(ctx, "stale", a.stale, args, func(int) {})
}

// Hold runs programs that take locks beside each replica, over its edges, until ctx ends; none if the lock is
// in the store.
func (a *Arena) Hold(ctx context.Context) error {
	if len(a.locks) == 0 {
		return nil
	}
	var addrs []string
	for _, h := range a.locks {
		addrs = append(addrs, h.addr())
	}
	s := dial.Service{Kind: a.Cell.Lock, Addr: strings.Join(addrs, ",")}
	if a.LockStore != nil {
		s = dial.Service{Kind: "mysql", Addr: fmt.Sprintf("%s@tcp(%s)/%s", Account, addrs[0], Database), Mode: a.Cell.Lock}
	}
	failed := make([]error, len(a.Replicas))
	var running sync.WaitGroup
	for i, r := range a.Replicas {
		running.Go(func() {
			args := append([]string{"-dir", a.Dir, "-id", r.ID, "-number", strconv.Itoa(i), "-ttl", LockTTL.String()}, s.Args()...)
			failed[i] = a.beside(ctx, "holder-"+r.ID, a.holder, args, r.setHolder)
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// beside runs a program until ctx ends, registers its process, and waits for its end. An end before that is an
// error.
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
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-gone
}
