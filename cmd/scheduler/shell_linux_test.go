package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// shell is a folder with a configuration, in which a shell calls the program.
type shell struct {
	binary, dir string
	locks       *locks.Locker // of the same keys
	deleted     bool          // the test has deleted its store
}

// shells are one of each kind: with locks in the store's file, and in Redis.
func shells(t *testing.T, test func(t *testing.T, s *shell)) {
	t.Helper()
	for name, text := range map[string]func(t *testing.T) string{"sqlite": inStore, "redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newShell(t, text(t)))
		})
	}
}

// services are shells with each lock service.
func services(t *testing.T, test func(t *testing.T, s *shell)) {
	t.Helper()
	for name, text := range map[string]func(t *testing.T) string{
		"sqlite": inStore, "redis": onRedis, "zookeeper": onZooKeeper, "mysql-lease": onLease, "mysql-row": onRow, "quorum": onQuorum,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newShell(t, text(t)))
		})
	}
}

func inStore(*testing.T) string { return "" }

// withName is a configuration with a name, so that no store is needed.
func withName(t *testing.T, lock string) string {
	name := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	return fmt.Sprintf("name: %s%d\nlock: {%s}\n", name[:min(40, len(name))], time.Now().UnixNano()%1e9, lock)
}

func onRedis(t *testing.T) string {
	return withName(t, fmt.Sprintf("driver: redis, ttl: %v, redis: {addrs: [%q]}", execTTL, servers.Redis(t)))
}

func onZooKeeper(t *testing.T) string {
	return withName(t, fmt.Sprintf("driver: zookeeper, ttl: %v, zookeeper: {servers: [%q]}", execTTL, servers.ZooKeeper(t)))
}

func onLease(t *testing.T) string {
	return withName(t, fmt.Sprintf("driver: mysql, ttl: %v, mysql: {dsn: %q}", execTTL, servers.MySQL(t)))
}

func onRow(t *testing.T) string {
	return withName(t, fmt.Sprintf("driver: mysql, ttl: %v, mysql: {dsn: %q, mode: row}", execTTL, servers.MySQL(t)))
}

func onQuorum(t *testing.T) string {
	var nodes []string
	for range 3 {
		nodes = append(nodes, fmt.Sprintf("{addrs: [%q]}", servers.NewRedis(t).Addr))
	}
	return withName(t, fmt.Sprintf("driver: quorum, ttl: %v, quorum: {nodes: [%s]}", execTTL, strings.Join(nodes, ", ")))
}

// execTTL is lock.ttl of locks that are not in the store.
const execTTL = 3 * time.Second

func newShell(t *testing.T, text string) *shell {
	t.Helper()
	s := &shell{binary: programs.Build(t, module), dir: t.TempDir()}
	path := filepath.Join(s.dir, "lockstep.yaml")
	if err := os.WriteFile(path, []byte("version: 1\njobs: {a: {command: [echo]}}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := openForUsers(t.Context(), c, locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.close(context.Background())
		if err != nil && !(s.deleted && strings.Contains(err.Error(), "was deleted or replaced")) { // which it may have noticed, or not
			t.Error(err)
		}
	})
	s.locks = p.users
	await.Until(t, "the lock service grants", func() bool {
		got, err := s.locks.TryAcquire(t.Context(), locks.Request{Key: "first"})
		return err == nil && got[0].Err == nil && got[0].Lease.Release(t.Context()) == nil
	})
	return s
}

// command is "scheduler locks exec …".
func (s *shell) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), s.binary, append([]string{"locks", "exec"}, args...)...)
	cmd.Dir = s.dir
	return cmd
}

// start starts one in the background.
func (s *shell) start(t *testing.T, args ...string) *programs.Process {
	t.Helper()
	return programs.Start(t, s.command(t, args...))
}

// run returns the exit code and the outputs of one.
func (s *shell) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return s.scheduler(t, append([]string{"locks", "exec"}, args...)...)
}

// scheduler calls the program.
func (s *shell) scheduler(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.binary, args...)
	cmd.Dir = s.dir
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("hello\n"), &out, &errs
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// wrote waits until a process has written a line.
func wrote(t *testing.T, p *programs.Process, line string) {
	t.Helper()
	await.Until(t, "it writes "+line, func() bool { return strings.Contains("\n"+p.Log(), "\n"+line+"\n") })
}

// waiting returns how many wait for a key, and who holds it.
func (s *shell) waiting(t *testing.T, key string) (waiters, holders []locks.Info) {
	t.Helper()
	for info, err := range s.locks.Inspect(t.Context(), "user/"+key) {
		switch {
		case err != nil:
			t.Fatal(err)
		case info.Place > 0:
			waiters = append(waiters, info)
		default:
			holders = append(holders, info)
		}
	}
	return waiters, holders
}
