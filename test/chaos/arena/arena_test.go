//go:build linux

package arena

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// A replica that was stopped stays so until it is started; one that ends by itself is started again; a
// twin of it is refused.
func TestReplica(t *testing.T) {
	a := Open(t, Cell{SQLite, SQLite}, t.TempDir(), Options{Replicas: 1})
	r := a.Replicas[0]
	first := r.PID()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil { // as the machine might
		t.Fatal(err)
	}
	program.Within(t, 20*time.Second, "another process", func() bool { return r.PID() != 0 && r.PID() != first })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Twin(); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 20*time.Second, "the twin ends", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.twins[0].ended()
	})
	if ended, refused := r.Untwin(); ended != 1 || refused != 1 {
		t.Errorf("%d twins ended by themselves, %d because they were refused", ended, refused)
	}
	if err := r.KillGroup(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // longer than a service manager waits
	if r.Alive() {
		t.Error("it runs after it was killed")
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err == nil {
		t.Error("it was started twice")
	}
	if err := r.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
}

// Memory is weighed where it is the replica's own.
func TestRaced(t *testing.T) {
	for name, file := range map[string]string{"race": Race(t), "plain": Plain(t)} {
		if raced(t, file) != (name == "race") {
			t.Errorf("the %s build counts as the other one", name)
		}
	}
	a := Open(t, Cell{SQLite, SQLite}, t.TempDir(), Options{Replicas: 1})
	n, err := a.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, weighed := n["MB of r1"]; weighed || n["live MB of r1"] == 0 {
		t.Errorf("with the race detector: %v", n)
	}
}
