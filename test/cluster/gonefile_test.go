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

// TestTheFileOfAReplicaIsReplaced: a replica whose SQLite file was deleted starts nothing, takes nothing and says so. One
// that starts on a new file of that name has it alone.
func TestTheFileOfAReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, done := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "done")
	text := fmt.Sprintf("version: 1\nreplica: {session_ttl: 3s}\njobs:\n  second: {schedule: \"* * * * * *\", shell: 'echo $LOCKSTEP_REPLICA $LOCKSTEP_SCHEDULED_AT >> %s'}\n", done)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	starts := func(replica string) (at []string) {
		content, _ := os.ReadFile(done)
		for line := range strings.Lines(string(content)) {
			if who, when, _ := strings.Cut(strings.TrimSpace(line), " "); who == replica {
				at = append(at, when)
			}
		}
		return at
	}
	old := startReplica(t, config, "old")
	program.Within(t, 15*time.Second, "the job runs", func() bool { return len(starts("old")) >= 2 })
	files, err := filepath.Glob(filepath.Join(dir, "lockstep.db*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	program.Within(t, 10*time.Second, "readiness says so", func() bool {
		ready, detail := old.condition(t, "store")
		return !ready && strings.Contains(detail, "lockstep.db was deleted or replaced while it is open")
	})
	if log := old.Log(); !strings.Contains(log, "service away") || !strings.Contains(log, "was deleted or replaced") {
		t.Errorf("its log does not say so:\n%s", log)
	}
	if err := old.call("POST", "/api/v1/pools/default/tasks", map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "was deleted or replaced") {
		t.Errorf("an enqueue: %v", err)
	}
	had := len(starts("old"))
	fresh := startReplica(t, config, "new")
	program.Within(t, 15*time.Second, "the job runs on the new file", func() bool { return len(starts("new")) >= 4 })
	if n := len(starts("old")); n > had {
		t.Errorf("the replica without a file has started %d more", n-had)
	}
	for _, at := range starts("new") {
		if slices.Contains(starts("old"), at) {
			t.Errorf("%s ran on both", at)
		}
	}
	if ready, _ := old.condition(t, "store"); ready {
		t.Error("the replica without a file is ready")
	}
	fresh.Drain(t, 20*time.Second)
}
