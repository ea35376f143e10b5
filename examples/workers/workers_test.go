// Package workers has a worker in Python and one in TypeScript, which take tasks over HTTP. Its tests run them.
package workers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

const configuration = `version: 1
server: {listen: "127.0.0.1:0", auth: {tokens_file: tokens.yaml}}
pools:
  reports: {worker: {}}
`

// office is a replica with the pool reports, at defaults.
type office struct {
	*client.Client
	t     *testing.T
	url   string
	token string // of workers
}

func open(t *testing.T) *office {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lockstep.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	scheduler := program.Build(t, "../../cmd/scheduler")
	create := func(args ...string) string {
		cmd := exec.Command(scheduler, append([]string{"token", "create", "--file", "tokens.yaml"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	o := &office{t: t, token: create("--name", "reporter", "--role", "worker", "--pools", "reports")}
	admin := create("--name", "me", "--role", "admin")
	cmd := exec.Command(scheduler, "serve", "-c", "lockstep.yaml")
	cmd.Dir = dir
	o.url = program.Start(t, cmd).URL(t)
	var err error
	if o.Client, err = client.New(o.url, client.Options{Token: admin}); err != nil {
		t.Fatal(err)
	}
	return o
}

// languages are the commands of the workers, by language.
func languages(t *testing.T) map[string][]string {
	t.Helper()
	servers.Need(t, "python3", "node")
	return map[string][]string{"python": {"python3", "worker.py", "reports"}, "typescript": {"node", script(t), "reports"}}
}

// script is worker.ts as node runs it: as it is, where node leaves types out, else as the compiler of TypeScript makes it.
func script(t *testing.T) string {
	t.Helper()
	if exec.Command("node", "--eval", "process.exit(process.features.typescript ? 0 : 1)").Run() == nil {
		return "worker.ts"
	}
	servers.Need(t, "tsc")
	dir := t.TempDir()
	cmd := exec.Command("tsc", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--types", "--moduleDetection", "force", "--outDir", dir, "worker.ts")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "worker.js")
}

// start starts a worker; kill ends it with SIGKILL.
func (o *office) start(command []string) (kill func()) {
	o.t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+o.url, "LOCKSTEP_API_TOKEN="+o.token)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	o.t.Cleanup(kill)
	return kill
}

func (o *office) enqueue(seconds float64) string {
	o.t.Helper()
	payload, _ := json.Marshal(map[string]float64{"seconds": seconds})
	got, err := o.Enqueue(o.t.Context(), jobs.NewTask{Pool: "reports", Payload: json.RawMessage(payload)})
	if err != nil {
		o.t.Fatal(err)
	}
	return got[0].ID
}

func (o *office) task(id string) jobs.Task {
	o.t.Helper()
	task, err := o.Task(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	return task.Task
}

// Each worker runs tasks, also one that takes longer than its session lasts without heartbeats; the output is kept.
func TestWorkersRunTasks(t *testing.T) {
	for language, command := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			long := o.enqueue(12)
			ids := []string{long, o.enqueue(0), o.enqueue(0)}
			o.start(command)
			o.start(command)
			for _, id := range ids {
				task, err := o.Await(t.Context(), id)
				if err != nil || task.State != jobs.StateSucceeded || task.Attempt != 1 || !strings.HasPrefix(task.Replica, language+"-") {
					t.Errorf("%+v, %v", task, err)
				}
				if out, err := o.Output(t.Context(), id, 0); err != nil || string(out) != "done by "+task.Replica {
					t.Errorf("output %q, %v", out, err)
				}
			}
		})
	}
}

// A worker is killed while it runs a task: the one that replaces it runs the task again, within 15 s, with a larger token.
func TestAKilledWorkerIsReplaced(t *testing.T) {
	for language, command := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			kill := o.start(command)
			id := o.enqueue(30)
			await.Until(t, "the task runs", func() bool { return o.task(id).State == jobs.StateRunning })
			first := o.task(id)
			kill()
			died := time.Now()
			o.start(command)
			await.Until(t, "it runs again", func() bool { return o.task(id).Attempt == 2 && o.task(id).State == jobs.StateRunning })
			took, again := time.Since(died), o.task(id)
			if took > 15*time.Second || again.Token != first.Token+1 || again.Replica == first.Replica {
				t.Errorf("after %v by %s with token %d; before by %s with %d", took, again.Replica, again.Token, first.Replica, first.Token)
			}
			task, err := o.Client.Task(t.Context(), id)
			if err != nil || len(task.Attempts) != 1 || task.Attempts[0].State != jobs.StateLost {
				t.Errorf("attempts %+v, %v", task.Attempts, err)
			}
			fmt.Fprintf(os.Stderr, "%s: it ran again after %v\n", language, took.Round(time.Millisecond))
		})
	}
}
