package compat

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// replica is one process of one of the programs.
type replica struct {
	*client.Client
	id   string
	cmd  *exec.Cmd
	file string // its log
	gone chan struct{}
}

// start returns when the replica is ready.
func start(t *testing.T, program, config, id string) *replica {
	t.Helper()
	r := &replica{id: id, file: filepath.Join(t.TempDir(), id+".log"), gone: make(chan struct{})}
	log, err := os.Create(r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(program, "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", id)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = filepath.Dir(config), log, log
	if err := servers.Start(r.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its state is read where it matters
		close(r.gone)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.gone
		if t.Failed() {
			t.Logf("%s:\n%s", id, r.log())
		}
	})
	var url string
	within(t, 30*time.Second, id+" is ready", func() bool {
		select {
		case <-r.gone:
			t.Fatalf("%s ended at once: %v", id, r.cmd.ProcessState)
		default:
		}
		for line := range strings.Lines(r.log()) {
			var record struct{ Msg, URL string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "listening" {
				url = record.URL
			}
		}
		if url == "" {
			return false
		}
		answer, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	if r.Client, err = client.New(url, client.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// drain stops the replica as an operator does, and holds that it ends well.
func (r *replica) drain(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.gone:
		if code := r.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s drained with exit code %d", r.id, code)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not end", r.id)
	}
}

func (r *replica) log() string {
	text, _ := os.ReadFile(r.file) // not there yet: nothing was said
	return string(text)
}

// within waits until ok, and fails the test if that takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
