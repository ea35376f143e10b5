//go:build unix

package cluster

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The README's first command, on a machine with nothing but Go: within 15 s of the build's end the
// example's jobs have fired and its pool has drained tasks; a second replica joins on the same file;
// and nothing but the database is written.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	example, err := os.ReadFile(filepath.Join(root, "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.example.yaml")
	if err := os.WriteFile(config, example, 0o600); err != nil {
		t.Fatal(err)
	}
	before := names(t, root)
	// The build ends when this does: go run keeps the program in the build cache.
	if out, err := exec.Command("go", "run", "../../cmd/scheduler", "version").CombinedOutput(); err != nil {
		t.Fatalf("go run: %v\n%s", err, out)
	}
	built := time.Now()

	cmd := exec.Command("go", "run", "./cmd/scheduler", "serve", "-c", config, "--listen", "127.0.0.1:0")
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	first := &replica{Process: program.Start(t, cmd), id: "first"}
	t.Cleanup(func() {
		// The program is a child of go run: the group has both.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		first.Ended(time.Minute)
	})
	first.url = first.URL(t)
	program.Within(t, 15*time.Second-time.Since(built), "jobs have fired and the pool has drained", func() bool {
		var page struct {
			Items []struct{ Job, Outcome, Result string }
		}
		if first.call("GET", "/api/v1/triggers?result=succeeded", nil, &page) != nil {
			return false
		}
		fired := map[string]bool{}
		for _, row := range page.Items {
			fired[row.Job] = true
		}
		var done struct{ Items []task }
		err := first.call("GET", "/api/v1/tasks?pool=letters&state=succeeded", nil, &done)
		return err == nil && fired["tick"] && fired["write-letters"] && len(done.Items) > 0
	})

	// As the example says: in the same folder, with nothing but an address of its own.
	second := startWith(t, dir, "second", "serve", "-c", "config.example.yaml", "--listen", servers.FreeAddress(t))
	var peers struct{ Items []struct{ ID string } }
	program.Within(t, 10*time.Second, "two replicas share the file", func() bool {
		return second.call("GET", "/api/v1/replicas", nil, &peers) == nil && len(peers.Items) == 2
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	minted := regexp.MustCompile("^" + regexp.QuoteMeta(host) + "-[0-9a-f]{8}$")
	if one, other := peers.Items[0].ID, peers.Items[1].ID; one == other || !minted.MatchString(one) || !minted.MatchString(other) {
		t.Errorf("ids %q and %q, want two of <host>-<8 hex>", one, other)
	}
	second.Drain(t, drainTimeout)

	allowed := []string{"config.example.yaml", "lockstep.db", "lockstep.db-wal", "lockstep.db-shm", "lockstep.db-turn"}
	for _, name := range names(t, dir) {
		if !slices.Contains(allowed, name) {
			t.Errorf("it wrote %s", name)
		}
	}
	if after := names(t, root); !slices.Equal(before, after) {
		t.Errorf("the folder had %v and has %v", before, after)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A store that cannot be reached at the start is an error with address and cause, within 10 s: a closed port, or a
// silent server.
func TestUnreachableAtStart(t *testing.T) {
	t.Parallel()
	path := program.Build(t, scheduler)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() }) // after the parallel parts, which a defer does not wait for
	const closed = "127.0.0.1:1"
	for _, addr := range []string{closed, mute.Addr().String()} {
		for name, config := range map[string]string{
			"store":            `store: {driver: mysql, dsn: "u:p@tcp(` + addr + `)/db"}`,
			"store, and locks": `store: {driver: mysql, dsn: "u:p@tcp(` + addr + `)/db"}` + "\nlock: {driver: redis}",
		} {
			what := " refuses"
			if addr != closed {
				what = " is mute"
			}
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "lockstep.yaml")
				if err := os.WriteFile(file, []byte("version: 1\n"+config+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				cmd := exec.Command(path, "serve", "-c", file, "--listen", "127.0.0.1:0")
				cmd.Stdout, cmd.Stderr = &out, &out
				began := time.Now()
				err := cmd.Run()
				took := time.Since(began)
				if err == nil || cmd.ProcessState.ExitCode() != 1 {
					t.Errorf("it ended with %v", err)
				}
				if took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				cause := "connection refused"
				if addr != closed {
					cause = "no answer within"
				}
				if text := out.String(); !strings.Contains(text, addr) || !strings.Contains(text, cause) {
					t.Errorf("no word of %s, or of %q:\n%s", addr, cause, text)
				}
			})
		}
	}
}

// A second signal kills running attempts, and the exit code is 1.
func TestTwoSignals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, []byte("version: 1\njobs: {long: {command: [sleep, \"600\"]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, file, "a")
	if err := r.call("POST", "/api/v1/jobs/long/run", nil, &wire.Run{}); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 10*time.Second, "the job runs", func() bool {
		var running struct{ Items []jobs.Task }
		return r.call("GET", "/api/v1/tasks?state=running", nil, &running) == nil && len(running.Items) == 1
	})
	r.Signal(t, syscall.SIGTERM)
	program.Within(t, 10*time.Second, "it drains", func() bool { return strings.Contains(r.Log(), "draining") })
	time.Sleep(600 * time.Millisecond) // within half a second it would be the same signal
	r.Signal(t, syscall.SIGTERM)
	if code := r.Exit(t, 10*time.Second); code != 1 || !strings.Contains(r.Log(), "stopped by a second signal") {
		t.Errorf("exit code %d\n%s", code, r.Log())
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	path := program.Build(t, scheduler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "serve", "-c", file, "--listen", l.Addr().String()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), l.Addr().String()) || !strings.Contains(string(out), "--listen") {
		t.Errorf("%v\n%s", err, out)
	}
}
