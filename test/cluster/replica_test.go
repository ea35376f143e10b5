package cluster

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

const scheduler = "../../cmd/scheduler"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // most tests wait for due times, and for a ttl to pass
	os.Exit(program.Main(m))
}

// replica is one process of the binary.
type replica struct {
	*program.Process
	id  string
	url string // of its API
}

// startReplica returns when the replica is ready.
func startReplica(t *testing.T, config, id string) *replica {
	t.Helper()
	return startWith(t, filepath.Dir(config), id, "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", id)
}

// startWith is startReplica with a command line, in a folder. The id is for the test's own words.
func startWith(t *testing.T, dir, id string, args ...string) *replica {
	t.Helper()
	cmd := exec.Command(program.Build(t, scheduler), args...)
	cmd.Dir = dir
	r := &replica{Process: program.Start(t, cmd), id: id}
	t.Cleanup(func() {
		var locks json.RawMessage
		if t.Failed() && r.call("GET", "/api/v1/locks?limit=500", nil, &locks) == nil {
			t.Logf("locks as %s sees them: %s", id, locks)
		}
	})
	r.url = r.URL(t)
	return r
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
