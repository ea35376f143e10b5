package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// file writes a configuration beside that of the shell, and returns its name.
func (s *shell) file(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte("version: 1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A command is not run under a lock that the live replicas of its store would not see: its file names another lock service, or
// another namespace. A replica that has ended keeps nobody out.
func TestExecComparesWithReplicas(t *testing.T) {
	t.Parallel()
	s := newShell(t, inStore(t))
	replica := s.replica(t)
	redis := s.file(t, "redis.yaml", withName(t, fmt.Sprintf("driver: redis, redis: {addrs: [%q]}", servers.Redis(t))))
	named := s.file(t, "named.yaml", "name: another\n")
	for _, file := range []string{redis, named} {
		code, out, errs := s.run(t, "orders", "-c", file, "--", "echo", "ran")
		for _, want := range []string{"different lock services on one store", "live replica", "the store's own database", "the command was not run", "-c", "lock:"} {
			if code != exitUsage || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q: %s%s", file, code, exitUsage, want, out, errs)
			}
		}
	}
	if code, out, errs := s.run(t, "orders", "--", "echo", "ran"); code != 0 || out != "ran\n" || errs != "" {
		t.Errorf("with the file of the replica: exit code %d, %s%s", code, out, errs)
	}
	replica.Signal(t, syscall.SIGKILL)
	replica.Exit(t, 10*time.Second)
	if code, out, errs := s.run(t, "orders", "-c", named, "--", "echo", "ran"); code != 0 || out != "ran\n" {
		t.Errorf("after its end: exit code %d, %s%s", code, out, errs)
	}
}

// The session of a replica on another machine counts as live if it has heartbeats, and is out of the way once it has had none for its ttl.
func TestExecComparesWithSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beats bool
		flags []string
	}{
		"beats": {beats: true}, "silent": {}, "silent for longer than the wait": {flags: []string{"--wait", "1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beats := c.beats
			s := newShell(t, inStore(t))
			st, err := store.Open(t.Context(), store.SQLite, filepath.Join(s.dir, "lockstep.db"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			if err := st.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			side := st.Sides().Replica
			session, err := side.Join(t.Context(), ledger.Member{Replica: "far", Host: "elsewhere", TTL: 2 * time.Second, LockService: scheduler.Fingerprint("zookeeper")})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for beats && ctx.Err() == nil {
					_, _ = side.Beat(ctx, session)
					select {
					case <-ctx.Done():
					case <-time.After(300 * time.Millisecond):
					}
				}
			}()
			defer func() { end(); <-done }()
			began := time.Now()
			code, out, errs := s.run(t, append([]string{"orders"}, append(c.flags, "--", "echo", "ran")...)...)
			if !strings.Contains(errs, `warning: replica "far" on elsewhere uses another lock service; waiting up to 2s`) {
				t.Errorf("it does not say what it waits for: %s", errs)
			}
			if beats && (code != exitUsage || out != "" || !strings.Contains(errs, `live replica "far" uses zookeeper`)) {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
			if !beats && (code != 0 || out != "ran\n" || time.Since(began) < 2*time.Second) {
				t.Errorf("exit code %d after %v, %s%s", code, time.Since(began), out, errs)
			}
		})
	}
}

// A store that the lock does not need: where it is away, the command runs, and a warning says what is not known. Where there is
// none, nothing is said, and none is made.
func TestExecWithoutTheStore(t *testing.T) {
	t.Parallel()
	s := newShell(t, onRedis(t))
	text, err := os.ReadFile(filepath.Join(s.dir, "lockstep.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lock := strings.TrimPrefix(string(text), "version: 1\n")
	away := s.file(t, "away.yaml", lock+"store: {driver: mysql, dsn: \"u:p@tcp(127.0.0.1:1)/x\"}\n")
	none := s.file(t, "none.yaml", lock+"store: {dsn: none.db}\n")
	code, out, errs := s.run(t, "orders", "-c", away, "--", "echo", "ran")
	if code != 0 || out != "ran\n" || !strings.HasPrefix(errs, "warning: ") || !strings.Contains(errs, "127.0.0.1:1") || !strings.Contains(errs, "same lock service") {
		t.Errorf("the store is away: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs = s.run(t, "orders", "-c", none, "--", "echo", "ran"); code != 0 || out != "ran\n" || errs != "" {
		t.Errorf("there is none: exit code %d, %s%s", code, out, errs)
	}
	if made, _ := filepath.Glob(filepath.Join(s.dir, "none.db*")); len(made) > 0 {
		t.Errorf("made were %v", made)
	}
}

// A store whose file is deleted while a lock in it is held: the command is ended at once, and not at the end of the lease, as
// others may lock in another file by then. What waits there ends, too, as its turn never comes.
func TestExecWithADeletedStore(t *testing.T) {
	t.Parallel()
	s := newShell(t, "lock: {ttl: 1m}\n")
	p := s.start(t, "orders", "--", "sh", "-c", "echo ready; sleep 60")
	wrote(t, p, "ready")
	waiter := s.start(t, "orders", "--wait", "forever", "--", "echo", "waiter ran")
	await.Until(t, "it waits", func() bool { waiters, _ := s.waiting(t, "orders"); return len(waiters) > 0 })
	s.deleted = true
	all, _ := filepath.Glob(filepath.Join(s.dir, "lockstep.db*"))
	for _, file := range all {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	deleted := time.Now()
	if code := p.Exit(t, 30*time.Second); code != exitLost || time.Since(deleted) > 10*time.Second {
		t.Errorf("exit code %d after %v, want %d at once", code, time.Since(deleted), exitLost)
	}
	if !strings.Contains(p.Log(), "lockstep.db was deleted or replaced") {
		t.Error("it does not say why")
	}
	if code := waiter.Exit(t, 30*time.Second); code != exitFailed || !strings.Contains(waiter.Log(), "lockstep.db was deleted or replaced") || !strings.Contains(waiter.Log(), "run it again") {
		t.Errorf("the waiter: exit code %d: %s", code, waiter.Log())
	}
	await.Until(t, "all are gone", func() bool { return p.Ended(0) })
}
