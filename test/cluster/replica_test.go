package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// binary builds the scheduler once per run, as users get it: without the race detector, whose
// slowness would blur the bounds on time that are held here.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "scheduler")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../cmd/scheduler").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

var binaryDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockstep-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaryDir = dir
	return servers.Main(m)
}

// replica is one process of the binary.
type replica struct {
	id   string
	url  string // of its API
	cmd  *exec.Cmd
	log  string // a file
	gone chan struct{}
}

// startReplica returns when the replica is ready. It is killed at the end of the test if it still
// runs then, and its log is shown if the test failed.
func startReplica(t *testing.T, config, id string) *replica {
	t.Helper()
	return startWith(t, filepath.Dir(config), id, "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", id)
}

// startWith is startReplica with a command line, in a folder. The id is for the test's own words.
func startWith(t *testing.T, dir, id string, args ...string) *replica {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{id: id, log: filepath.Join(dir, id+".log"), gone: make(chan struct{})}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(path, args...)
	r.cmd.Dir = dir
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := servers.Start(r.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its state is read where it matters
		close(r.gone)
	}()
	t.Cleanup(func() {
		var locks json.RawMessage
		if t.Failed() && r.call("GET", "/api/v1/locks?limit=500", nil, &locks) == nil {
			t.Logf("locks as %s sees them: %s", id, locks)
		}
		_ = r.cmd.Process.Kill()
		<-r.gone
		if t.Failed() {
			t.Logf("end of %s's log:\n%s", id, tail(r.log))
		}
	})
	within(t, 30*time.Second, id+" is ready", func() bool {
		select {
		case <-r.gone:
			t.Fatalf("%s ended at once: %v", id, r.cmd.ProcessState)
		default:
		}
		if r.url == "" {
			r.url = address(r.log)
		}
		if r.url == "" {
			return false
		}
		answer, err := http.Get(r.url + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return r
}

// kill ends r as a power cut would.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.gone
}

// terminate asks r to drain.
func (r *replica) terminate(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// wantExit holds that r, having been asked to, ends within limit with code 0.
func (r *replica) wantExit(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case <-r.gone:
		if code := r.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s drained with exit code %d", r.id, code)
		}
	case <-time.After(limit):
		t.Fatalf("%s has not ended %v after SIGTERM", r.id, limit)
	}
}

// address finds what the replica printed as its own.
func address(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		var record struct {
			Msg, URL string
		}
		if json.Unmarshal(line, &record) == nil && record.Msg == "listening" {
			return record.URL
		}
	}
	return ""
}

// call sends a request with a JSON body, if in is not nil, and decodes the answer into out.
func (r *replica) call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return json.Unmarshal(text, out)
}

// task is what the test reads of a task.
type task struct {
	ID, State, Replica string
	Attempt            int
}

type page struct{ Items []task }

// enqueue adds n tasks to a pool and returns their ids once they are acknowledged.
func (r *replica) enqueue(t *testing.T, pool string, n int) (ids []string) {
	t.Helper()
	for left := n; left > 0; left -= min(left, 1000) {
		list := make([]map[string]any, min(left, 1000))
		for i := range list {
			list[i] = map[string]any{"payload": map[string]int{"n": i}}
		}
		var p page
		if err := r.call("POST", "/api/v1/pools/"+pool+"/tasks", list, &p); err != nil {
			t.Fatal(err)
		}
		for _, item := range p.Items {
			ids = append(ids, item.ID)
		}
	}
	if len(ids) != n {
		t.Fatalf("%d tasks sent to %s, %d acknowledged", n, pool, len(ids))
	}
	return ids
}

// tasks lists the latest of a pool that are in a state; 500 at most.
func (r *replica) tasks(t *testing.T, pool, state string) []task {
	t.Helper()
	var p page
	if err := r.call("GET", "/api/v1/tasks?limit=500&pool="+pool+"&state="+state, nil, &p); err != nil {
		t.Fatal(err)
	}
	return p.Items
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

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}
