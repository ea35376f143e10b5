package cluster

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// TestTheFileOfAReplicaIsReplaced: a replica whose SQLite file was deleted starts and claims nothing, and reports it.
// One that starts on a new file of that name is the only one on it.
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
	if log := old.Log(); !strings.Contains(log, "service unavailable; retrying") || !strings.Contains(log, "was deleted or replaced") {
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

// TestAReplicaBesideALogWithoutItsFile: while a replica has a file that was moved away, no other starts on its log, and the
// first goes on once the file is back. After it was killed and a backup is in its place, one starts as soon as what the
// message names is removed, and has the backup.
func TestAReplicaBesideALogWithoutItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, file := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "lockstep.db")
	if err := os.WriteFile(config, []byte("version: 1\npools:\n  mail: {shell: cat}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		cmd := exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", "next")
		cmd.Dir = dir
		next := program.Start(t, cmd)
		if code := next.Exit(t, 20*time.Second); code != 1 || !strings.Contains(next.Log(), want) {
			t.Errorf("exit code %d: %s", code, next.Log())
		}
	}
	old := startReplica(t, config, "old")
	ready := func() bool { ready, _ := old.condition(t, "store"); return ready }
	program.Within(t, 15*time.Second, "it works", ready)
	backup := filepath.Join(dir, "backup")
	db, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = db.Exec("VACUUM INTO '" + backup + "'")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := old.call("POST", "/api/v1/pools/mail/tasks", map[string]any{}, &json.RawMessage{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 10*time.Second, "readiness names the log", func() bool {
		ready, detail := old.condition(t, "store")
		return !ready && strings.Contains(detail, "remove lockstep.db-wal and lockstep.db-shm")
	})
	refused("lockstep.db-wal is here without lockstep.db")
	if log, err := os.Stat(file + "-wal"); err != nil || log.Size() == 0 {
		t.Errorf("the log of the replica that runs was emptied: %v", err)
	}
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 15*time.Second, "it goes on", ready)

	old.Kill(t)
	if err := os.Rename(backup, file); err != nil {
		t.Fatal(err)
	}
	refused("if lockstep.db is a backup, stop all replicas and remove lockstep.db-wal and lockstep.db-shm")
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil {
			t.Fatal(err)
		}
	}
	fresh := startReplica(t, config, "fresh")
	program.Within(t, 30*time.Second, "it works on the backup", func() bool { ready, _ := fresh.condition(t, "store"); return ready })
	var tasks struct{ Items []json.RawMessage }
	if err := fresh.call("GET", "/api/v1/tasks", nil, &tasks); err != nil || len(tasks.Items) != 0 {
		t.Errorf("%d tasks on a backup that has none: %v", len(tasks.Items), err)
	}
	fresh.Drain(t, 20*time.Second)
}
