package arena

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Zombie lets an owner that is none any more write to store and lock until ctx ends; past the edges.
func (a *Arena) Zombie(ctx context.Context) error {
	driver, dsn := a.StoreDSN()
	args := []string{"-dir", a.Dir, "-driver", driver, "-dsn", dsn}
	switch {
	case a.Redis != nil:
		args = append(args, "-lock", "redis", "-lock-addr", a.Redis.Addr)
	case a.ZooKeeper != nil:
		args = append(args, "-lock", "zookeeper", "-lock-addr", strings.Join(a.ZooKeeper.Addrs(), ","))
	case a.LockStore != nil:
		args = append(args, "-lock", "mysql", "-lock-addr", a.LockStore.DSN(database), "-lock-mode", a.Cell.Lock)
	}
	log, err := os.Create(filepath.Join(a.Dir, history.LogsDir, "zombie.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.zombie, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := servers.Start(cmd); err != nil {
		return fmt.Errorf("zombie: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	select {
	case err := <-gone:
		return fmt.Errorf("zombie: it ended by itself, %s says why: %w", log.Name(), err)
	case <-ctx.Done():
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-gone
}
