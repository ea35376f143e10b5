package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// free is an address that nothing listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// forward passes connections at one address on to another one, until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				all.Go(func() { _, _ = io.Copy(server, c); server.Close() })
				_, _ = io.Copy(c, server)
			})
		}
	})
}

// awayShell has a lock service, at an address, that nothing listens at yet.
func awayShell(t *testing.T) (s *shell, addr string) {
	t.Helper()
	addr = free(t)
	s = &shell{binary: programs.Build(t, module), dir: t.TempDir()}
	s.file(t, "lockstep.yaml", withName(t, fmt.Sprintf("driver: redis, ttl: %v, redis: {addrs: [%q]}", execTTL, addr)))
	return s, addr
}

// With --wait a lock service that cannot be reached is tried again: it comes, the time ends, or a signal does. Without, it is tried once.
func TestExecWaitsForAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	t.Run("it comes", func(t *testing.T) {
		t.Parallel()
		s, addr := awayShell(t)
		p := s.start(t, "orders", "--wait", "1m", "--", "echo", "ran")
		await.Until(t, "it says that it tries again", func() bool {
			return strings.Contains(p.Log(), "warning: ") && strings.Contains(p.Log(), "tried again for up to 1m0s") || p.Ended(0)
		})
		forward(t, addr, servers.Redis(t))
		if code := p.Exit(t, 30*time.Second); code != 0 || !strings.HasSuffix(p.Log(), "ran\n") {
			t.Errorf("exit code %d", code)
		}
		if said := strings.Count(p.Log(), "warning: "); said != 1 {
			t.Errorf("it said so %d times", said)
		}
	})
	t.Run("the time ends", func(t *testing.T) {
		t.Parallel()
		s, addr := awayShell(t)
		began := time.Now()
		code, out, errs := s.run(t, "orders", "--wait", "2s", "--", "echo", "ran")
		if took := time.Since(began); code != exitFailed || out != "" || took < 2*time.Second || took > 15*time.Second ||
			!strings.Contains(errs, "not reached within 2s") || !strings.Contains(errs, addr) || !strings.Contains(errs, "connection refused") {
			t.Errorf("exit code %d after %v, %s%s", code, took, out, errs)
		}
		if code, _, errs = s.run(t, "orders", "--", "true"); code != exitFailed || strings.Contains(errs, "warning") {
			t.Errorf("one try: exit code %d, %s", code, errs)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		t.Parallel()
		s, _ := awayShell(t)
		p := s.start(t, "orders", "--wait", "forever", "--", "true")
		await.Until(t, "it tries again", func() bool { return strings.Contains(p.Log(), "warning: ") || p.Ended(0) })
		p.Signal(t, syscall.SIGTERM)
		if code := p.Exit(t, 10*time.Second); code != 128+15 {
			t.Errorf("exit code %d", code)
		}
	})
}

// A wrong password, or another kind of server, ends the wait at once.
func TestExecDoesNotWaitForAMistake(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	_, rest, _ := strings.Cut(dsn, "@")
	for name, c := range map[string]struct{ text, want string }{
		"password":         {withName(t, fmt.Sprintf("driver: mysql, mysql: {dsn: %q}", "nobody:wrong@"+rest)), "Access denied"},
		"server":           {withName(t, fmt.Sprintf("driver: zookeeper, zookeeper: {servers: [%q]}", servers.Redis(t))), "lock.zookeeper.servers: Redis without TLS answers at"},
		"password of rows": {fmt.Sprintf("store: {driver: mysql, dsn: %q}\n", "nobody:wrong@"+rest), "Access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shell{binary: programs.Build(t, module), dir: t.TempDir()}
			s.file(t, "lockstep.yaml", c.text)
			began := time.Now()
			if code, out, errs := s.run(t, "orders", "--wait", "10m", "--", "true"); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d after %v: %s", code, time.Since(began), errs)
			}
		})
	}
}

// Mistakes in the configuration of the store are exit code 2, and its text names the key of the file and what to do; a store that is away is 1.
func TestExecSaysWhatIsWrongWithTheStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store string
		code  int
		want  []string
	}{
		"no folder":  {"{dsn: none/x.db}", exitUsage, []string{"store.dsn", "its folder", "make it"}},
		"a folder":   {"{dsn: .}", exitUsage, []string{"store.dsn", "this is a folder, not a file"}},
		"no SQLite":  {"{dsn: lockstep.yaml}", exitUsage, []string{"store.dsn", "not a database of SQLite"}},
		"no tables":  {"{dsn: x.db, migrate: manual}", exitFailed, []string{"scheduler migrate up"}},
		"away MySQL": {`{driver: mysql, dsn: "u:p@tcp(127.0.0.1:1)/x"}`, exitFailed, []string{"127.0.0.1:1", "connection refused", "See that the database runs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shell{binary: programs.Build(t, module), dir: t.TempDir()}
			s.file(t, "lockstep.yaml", "store: "+c.store+"\n")
			code, out, errs := s.run(t, "orders", "--", "echo", "ran")
			for _, want := range c.want {
				if code != c.code || out != "" || !strings.Contains(errs, want) {
					t.Errorf("exit code %d, want %d and %q: %s%s", code, c.code, want, out, errs)
				}
			}
		})
	}
}
