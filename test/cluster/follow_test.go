//go:build unix

package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// seen is what a command has printed so far.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// follow starts a command at a replica; wait waits for its end.
func (r *replica) follow(t *testing.T, args ...string) (out *seen, wait func() error) {
	t.Helper()
	out = &seen{}
	cmd := exec.Command(program.Build(t, scheduler), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+r.url)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return out, func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%v does not end", args)
		}
	}
}

// What a command writes is seen while it runs, from a replica that does not run it, each line once; what had arrived of one whose replica was killed stays.
func TestOutputIsFollowedFromAnotherReplica(t *testing.T) {
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config, release := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "release")
			dialect, dsn, _ := c.open(t, dir)
			text := fmt.Sprintf(`version: 1
name: follow
store: {driver: %s, dsn: %q}
jobs:
  say:
    shell: 'i=0; while [ ! -e %s ]; do i=$((i+1)); echo "line $i."; sleep 0.1; done; printf "the end"'
`, dialect, dsn, release)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			replicas := map[string]*replica{"r1": startReplica(t, config, "r1"), "r2": startReplica(t, config, "r2")}
			run := func() (id string, runs, other *replica) {
				var made struct{ Task task }
				if err := replicas["r1"].call("POST", "/api/v1/jobs/say/run", nil, &made); err != nil {
					t.Fatal(err)
				}
				var is task
				program.Within(t, 15*time.Second, "the task runs", func() bool {
					return replicas["r1"].call("GET", "/api/v1/tasks/"+made.Task.ID, nil, &is) == nil && is.State == "running"
				})
				runs, other = replicas["r1"], replicas["r2"]
				if is.Replica == "r2" {
					runs, other = other, runs
				}
				return is.ID, runs, other
			}

			id, runs, other := run()
			out, ended := other.follow(t, "tasks", "logs", id, "--follow")
			own, ownEnded := runs.follow(t, "tasks", "logs", id, "--follow")
			program.Within(t, 20*time.Second, "lines are seen from the other replica", func() bool { return strings.Contains(out.String(), "line 30.\n") })
			late, lateEnded := other.follow(t, "tasks", "logs", id, "--follow")
			program.Within(t, 20*time.Second, "lines are seen by the one who comes later", func() bool { return strings.Contains(late.String(), "line 30.\n") })
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, wait := range []func() error{ended, ownEnded, lateEnded} {
				if err := wait(); err != nil {
					t.Error(err)
				}
			}
			var want strings.Builder
			for i := 1; strings.Contains(own.String(), fmt.Sprintf("line %d.\n", i)); i++ {
				fmt.Fprintf(&want, "line %d.\n", i)
			}
			want.WriteString("the end\n")
			for who, got := range map[string]*seen{"the other replica": out, "the own replica": own, "the late one": late} {
				if got.String() != want.String() {
					t.Errorf("%s showed\n%s\nwant\n%s", who, got, &want)
				}
			}

			if err := os.Remove(release); err != nil {
				t.Fatal(err)
			}
			id, runs, other = run()
			out, ended = other.follow(t, "tasks", "logs", id, "--follow")
			program.Within(t, 20*time.Second, "lines are seen from the other replica", func() bool { return strings.Contains(out.String(), "line 20.\n") })
			runs.Kill(t)
			if err := ended(); err != nil {
				t.Errorf("after the loss: %v", err)
			}
			const lost = "[lost: what was written after this did not arrive]\n"
			if got := out.String(); !strings.Contains(got, "line 20.\n") || !strings.HasSuffix(got, lost) {
				t.Errorf("after the loss it showed\n%s", got)
			}
			answer, err := http.Get(other.url + "/api/v1/tasks/" + id + "/logs")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if kept, err := io.ReadAll(answer.Body); err != nil || string(kept) != out.String() {
				t.Errorf("kept is\n%s\n%v", kept, err)
			}
		})
	}
}
