// Package workers has a worker in Python and one in TypeScript, which take tasks over HTTP. Its tests run them.
package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
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

// mostLines is how long an example may be, without blank lines and comments.
const mostLines = 40

// office is a replica with the pool reports, at defaults.
type office struct {
	*client.Client
	t         *testing.T
	dir       string
	scheduler string
	replica   *program.Process
	url       string
	token     string // of workers
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
	o := &office{t: t, dir: dir, scheduler: scheduler, token: create("--name", "reporter", "--role", "worker", "--pools", "reports")}
	admin := create("--name", "me", "--role", "admin")
	o.serve()
	var err error
	if o.Client, err = client.New(o.url, client.Options{Token: admin}); err != nil {
		t.Fatal(err)
	}
	return o
}

// serve starts the replica, at its address if it has one.
func (o *office) serve() {
	o.t.Helper()
	args := []string{"serve", "-c", "lockstep.yaml"}
	if o.url != "" {
		args = append(args, "--listen", strings.TrimPrefix(o.url, "http://"))
	}
	cmd := exec.Command(o.scheduler, args...)
	cmd.Dir = o.dir
	o.replica = program.Start(o.t, cmd)
	o.url = o.replica.URL(o.t)
}

// restart starts the replica anew, with another configuration.
func (o *office) restart(configuration string) {
	o.t.Helper()
	o.replica.Drain(o.t, 30*time.Second)
	if err := os.WriteFile(filepath.Join(o.dir, "lockstep.yaml"), []byte(configuration), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.serve()
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
	_, kill = o.begin(command, os.Stderr)
	return kill
}

// begin is start with a place for what the worker says.
func (o *office) begin(command []string, out io.Writer) (cmd *exec.Cmd, kill func()) {
	o.t.Helper()
	cmd = exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+o.url, "LOCKSTEP_API_TOKEN="+o.token)
	cmd.Stdout, cmd.Stderr = out, out
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
	return cmd, kill
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

// refusals counts how often a worker says that it waits. It has the worker's output.
type refusals struct{ n atomic.Int64 }

func (r *refusals) Write(p []byte) (int, error) {
	r.n.Add(int64(bytes.Count(p, []byte("waiting:"))))
	return len(p), nil
}

// A replica with a file that lacks the pool, as one before a rolling upgrade, or has it for replicas, does not end a worker: it waits, and goes
// on when the pool is its own.
func TestAWorkerWaitsForItsPool(t *testing.T) {
	for language, command := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			first := o.enqueue(0)
			said := &refusals{}
			o.begin(command, said)
			if _, err := o.Await(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			for _, older := range []string{"{mail: {worker: {}}}", "{reports: {command: [\"true\"], kinds: {pdf: {worker: {}}}}}", "{reports: {command: [\"true\"]}}"} {
				o.restart(strings.Replace(configuration, "\n  reports: {worker: {}}", " "+older, 1))
				before := said.n.Load()
				await.Until(t, "the worker is refused", func() bool { return said.n.Load() > before })
			}
			o.restart(configuration)
			if task, err := o.Await(t.Context(), o.enqueue(0)); err != nil || task.State != jobs.StateSucceeded || !strings.HasPrefix(task.Replica, language+"-") {
				t.Errorf("%+v, %v", task, err)
			}
		})
	}
}

// A worker that is told to stop ends the task that it has, takes no other one, and leaves.
func TestAWorkerStops(t *testing.T) {
	for language, command := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			cmd, _ := o.begin(command, os.Stderr)
			id := o.enqueue(3)
			await.Until(t, "the task runs", func() bool { return o.task(id).State == jobs.StateRunning })
			other := o.enqueue(0)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it has ended with %v", err)
			}
			if got := o.task(id); got.State != jobs.StateSucceeded || got.Attempt != 1 {
				t.Errorf("the task: %+v", got)
			}
			if got := o.task(other); got.State != jobs.StatePending || got.Attempt != 0 {
				t.Errorf("the other task: %+v", got)
			}
			if workers, err := o.Workers(t.Context(), wire.Page{}); err != nil || len(workers.Items) != 0 {
				t.Errorf("the session of %+v is left, %v", workers.Items, err)
			}
		})
	}
}

// A task that fails, or is cancelled while it runs, ends so; the worker that is stopped for that is started again by whoever watches over it.
func TestATaskFailsInAWorker(t *testing.T) {
	for language, command := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			cmd, _ := o.begin(command, os.Stderr)
			got, err := o.Enqueue(t.Context(), jobs.NewTask{Pool: "reports", MaxAttempts: 1, Payload: "no object"})
			if err != nil {
				t.Fatal(err)
			}
			task, err := o.Await(t.Context(), got[0].ID)
			if fails := language == "python"; err != nil || fails && (task.State != jobs.StateFailed || !strings.Contains(task.Error, "AttributeError")) || !fails && task.State != jobs.StateSucceeded {
				t.Errorf("%+v, %v", task, err) // for TypeScript a text has no seconds
			}
			id := o.enqueue(60)
			await.Until(t, "the task runs", func() bool { return o.task(id).State == jobs.StateRunning })
			if _, err := o.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if task, err := o.Await(t.Context(), id); err != nil || task.State != jobs.StateCancelled {
				t.Errorf("%+v, %v", task, err)
			}
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("it has ended with %v", err)
			}
		})
	}
}

// The examples are short.
func TestTheExamplesAreShort(t *testing.T) {
	for name, comment := range map[string]string{"worker.py": "#", "worker.ts": "//"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, comment) {
				n++
			}
		}
		if n > mostLines {
			t.Errorf("%s has %d lines, want %d at most", name, n, mostLines)
		}
	}
}
