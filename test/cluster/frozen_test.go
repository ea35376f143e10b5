//go:build unix

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A replica freezes in the middle of its work, as a machine does that swaps or is moved. The other
// one takes over its jobs at once and its tasks after the session's time; when the first goes on, it
// notices, changes nothing that is not its own any more, and works again. What it ran has ended
// before the other one starts it again.
func TestFrozenReplica(t *testing.T) {
	t.Parallel()
	redis := servers.NewRedis(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	release, beats := filepath.Join(dir, "release"), filepath.Join(dir, "beats")
	text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s}
store: {driver: mysql, dsn: %q}
lock: {driver: redis, ttl: 3s, redis: {addrs: [%q]}}
pools:
  long: {workers: 1, shell: "while [ ! -e %s ]; do echo $LOCKSTEP_ATTEMPT >>%s; sleep 0.1; done", on_lost: retry}
jobs:
  second: {schedule: "* * * * * *", command: ["true"]}
`, servers.MySQL(t), redis.Addr, release, beats)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r1 := startReplica(t, config, "r1")
	began := time.Now()
	id := r1.enqueue(t, "long", 1)[0]
	program.Within(t, 15*time.Second, "r1 runs the task", func() bool { return len(r1.tasks(t, "long", "running")) == 1 })
	r2 := startReplica(t, config, "r2")

	r1.Signal(t, syscall.SIGSTOP)
	frozen := time.Now()
	program.Within(t, 15*time.Second, "r2 runs the task", func() bool {
		running := r2.tasks(t, "long", "running")
		return len(running) == 1 && running[0].Replica == "r2" && running[0].Attempt == 2
	})
	t.Logf("the task was taken over after %v", time.Since(frozen).Round(time.Millisecond))

	r1.Signal(t, syscall.SIGCONT)
	program.Within(t, 15*time.Second, "r1 notices and is ready again", func() bool {
		ready, _ := r1.condition(t, "store")
		return ready && strings.Contains(r1.Log(), "this replica's session expired; joining again")
	})
	program.Within(t, 15*time.Second, "the second attempt says that it lives", func() bool {
		said, _ := os.ReadFile(beats)
		return strings.Contains(string(said), "2")
	})
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 15*time.Second, "the task has succeeded at r2", func() bool {
		done := r1.tasks(t, "long", "succeeded")
		return len(done) == 1 && done[0].ID == id && done[0].Replica == "r2" && done[0].Attempt == 2
	})
	if !strings.Contains(r2.Log(), `"msg":"a replica's session expired; its tasks are reaped","replica":"r1"`) {
		t.Error("r2 does not say that it declared r1 dead")
	}
	wantOneByOne(t, beats, 2)
	r2.wantEverySecond(t, time.Since(began))
}

// What a frozen replica ran with a lock has ended before another one gets the lock, though its task may go on for ever.
func TestFrozenReplicaWithALock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, log := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "log")
	text := fmt.Sprintf(`version: 1
name: frozen
replica: {session_ttl: 1m}
store: {driver: mysql, dsn: %q}
lock: {driver: redis, ttl: 3s, redis: {addrs: [%q]}}
pools:
  long: {locks: [k], on_lost: fail, retries: {limit: 0}, shell: "while [ -d %s ]; do echo task >>%s; sleep 0.1; done"}
`, servers.MySQL(t), servers.Redis(t), dir, log)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	r.enqueue(t, "long", 1)
	said := func() string { text, _ := os.ReadFile(log); return string(text) }
	program.Within(t, 20*time.Second, "the task runs", func() bool { return strings.Contains(said(), "task") })

	r.Signal(t, syscall.SIGSTOP)
	cmd := exec.Command(program.Build(t, scheduler), "locks", "exec", "-c", config, "k", "--wait", "30s", "--", "sh", "-c", "echo command >>"+log+"; sleep 1")
	cmd.Dir = dir
	if command := program.Start(t, cmd); command.Exit(t, 30*time.Second) != 0 {
		t.Errorf("the command did not run:\n%s", command.Log())
	}
	if _, after, ran := strings.Cut(said(), "command\n"); !ran || after != "" {
		t.Errorf("the task goes on while another one has its lock: %q", after)
	}
	r.Signal(t, syscall.SIGCONT)
	program.Within(t, 20*time.Second, "the task has failed", func() bool { return len(r.tasks(t, "long", "failed")) == 1 })
}
