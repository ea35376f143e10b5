//go:build unix

package exechandler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// part is what a replica in a process of its own is to do: run one command, whose time ends after
// ttl unless it is renewed, every quarter of that.
type part struct {
	Task    string
	Command exechandler.Command
	TTL     time.Duration
	Grace   time.Duration // of the bound
	Renew   bool
}

func play(text string) int {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	h, err := exechandler.New(p.Command)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := func() boottime.Instant { return boottime.Now().Add(p.TTL) }
	until := bound.New(end(), p.Grace, end())
	if p.Renew {
		go func() {
			for range time.Tick(p.TTL / 4) {
				until.Move(end())
			}
		}()
	}
	err = h.Run(bound.With(ctx, until), jobs.Task{ID: p.Task}, os.Stdout)
	fmt.Println("result:", err)
	return 0
}

// replica is such a process.
type replica struct {
	*exec.Cmd
	out  *watched
	task string
	done chan struct{}
}

// startReplica returns when the command has said "ready".
func startReplica(t *testing.T, p part) *replica {
	t.Helper()
	p.Task = strings.ReplaceAll(t.Name(), "/", "-") + strconv.Itoa(os.Getpid())
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Cmd: exec.Command(os.Args[0], "-test.run=^$"), out: &watched{}, task: p.Task, done: make(chan struct{})}
	r.Env = append(os.Environ(), played+"="+string(text))
	r.Stdout, r.Stderr = r.out, r.out
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as of a shell
	if err := servers.Start(r.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.Wait() // what became of it is in its output
	}()
	t.Cleanup(func() {
		_ = r.Process.Kill()
		await.Until(t, "the replica's output is closed", func() bool {
			select {
			case <-r.done:
				return true
			default:
				return false
			}
		})
		if t.Failed() {
			t.Logf("output:\n%s", r.out)
		}
	})
	await.Until(t, "the command is ready", func() bool { return strings.Contains(r.out.String(), "ready\n") })
	return r
}

// left are the processes that were started with the task's variables and still run.
func left(task string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "LOCKSTEP_TASK_ID="+task) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && program.Alive(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
