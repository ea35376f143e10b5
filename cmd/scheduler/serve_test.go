package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// The last log line of a drained replica says that it stopped.
func TestTheLastWordOfAReplica(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(path, []byte("version: 1\njobs: {a: {command: [echo]}}\nserver: {listen: \"127.0.0.1:0\"}\nreplica: {id: one}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heard, says := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"serve", "-c", path}, strings.NewReader(""), io.Discard, says)
		_ = says.Close()
	}()
	last := ""
	for lines := bufio.NewScanner(heard); lines.Scan(); {
		if last = lines.Text(); strings.Contains(last, "joined") {
			stop()
		}
	}
	if c := <-code; c != exitFine || !strings.Contains(last, "stopped") || !strings.Contains(last, "one") {
		t.Errorf("exit code %d, and last of all: %s", c, last)
	}
}

// A replica with another lock service than the live ones, or of another lock protocol, exits with the advice that doctor gives.
func TestRefusedOverLockServices(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"elsewhere", scheduler.StoreLocks, fmt.Sprintf("%s, lock protocol %d", scheduler.StoreLocks, driver.Protocol+1)} {
		t.Run(theirs, func(t *testing.T) {
			t.Parallel()
			refusedBeside(t, theirs)
		})
	}
}

func refusedBeside(t *testing.T, theirs string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "lockstep.yaml")
	if err := os.WriteFile(path, []byte("version: 1\njobs: {a: {command: [echo]}}\nserver: {listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	st := migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
	session, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "other", LockService: theirs, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	beating, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for beating.Err() == nil {
			if _, err := st.Sides().Replica.Beat(beating, session); err != nil && beating.Err() == nil {
				t.Error(err)
			}
			select {
			case <-beating.Done():
			case <-again.C:
			}
		}
	}()
	defer func() { stop(); <-stopped }()
	twin := call(t, nil, "serve", "-c", path, "--id", "other")
	if twin.code != exitFailed || !strings.Contains(twin.stderr, `"other" is live on host`) || !strings.Contains(twin.stderr, "another --id, or remove replica.id") {
		t.Errorf("with the id of one that lives: %+v", twin)
	}
	got := call(t, nil, "serve", "-c", path)
	uses := fmt.Sprintf("\"other\" uses %s, this one %s", theirs, scheduler.Fingerprint(scheduler.StoreLocks))
	if got.code != exitFailed || !strings.Contains(got.stderr, uses) || !strings.Contains(got.stderr, ": give all replicas the same lock section and, if only the namespaces differ, the same name: at the top; if their lock protocols differ, stop those of the other version first") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}
