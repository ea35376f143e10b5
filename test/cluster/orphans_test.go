package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// A killed replica is started again at once, and takes up the task that it was running: not before
// the command of the first attempt is gone, though that one ignores SIGTERM and its work is done in a session
// of its own.
func TestKilledReplicaLeavesNoOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	release, beats := filepath.Join(dir, "release"), filepath.Join(dir, "beats")
	text := fmt.Sprintf(`version: 1
store: {driver: sqlite, dsn: lockstep.db}
pools:
  long:
    on_lost: retry
    shell: |
      trap "" TERM
      exec setsid --wait sh -c 'trap "" TERM; while [ ! -e %s ]; do echo $LOCKSTEP_ATTEMPT >>%s; sleep 0.05; done'
`, release, beats)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	r.enqueue(t, "long", 1)
	attempt := func(n int) func() bool {
		return func() bool { return strings.Count(strings.Join(attempts(t, beats), " "), fmt.Sprint(n)) > 10 }
	}
	program.Within(t, 15*time.Second, "the task runs", attempt(1))
	killed := time.Now()
	r.Kill(t)
	r = startReplica(t, config, "r1")
	program.Within(t, 15*time.Second, "the task runs again", attempt(2))
	if took := time.Since(killed); took > 8*time.Second {
		t.Errorf("it took %v, though the session of a process that is gone need not be waited for", took)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 15*time.Second, "the task has succeeded", func() bool { return len(r.tasks(t, "long", "succeeded")) == 1 })
	wantOneByOne(t, beats, 2)
}

// attempts reads the attempts of a task that wrote their line, in order.
func attempts(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// wantOneByOne checks that n attempts ran, and each ended before the next one.
func wantOneByOne(t *testing.T, file string, n int) {
	t.Helper()
	all := attempts(t, file)
	if len(slices.Compact(slices.Clone(all))) != n || !slices.IsSorted(all) {
		t.Errorf("attempts said that they live in the order %v, want those of %d one by one", all, n)
	}
}
