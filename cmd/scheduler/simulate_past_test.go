package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// With --server, how long runs took says how much runs at once, and whose due times find an earlier run.
func TestSimulateFromThePast(t *testing.T) {
	ran := func(job string, took time.Duration) jobs.Trigger {
		return jobs.Trigger{Job: job, Outcome: jobs.Ran, StartedAt: noon, FinishedAt: noon.Add(took)}
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		var list wire.List[jobs.Trigger]
		switch job := r.URL.Query().Get("job"); {
		case r.URL.Query().Get("outcome") != "ran":
			t.Errorf("asked for %s", r.URL)
		case job == "c":
			list.Items = []jobs.Trigger{ran("c", time.Second)}
		case job == "d":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"code":"not_found","message":"there is no job d"}}`)
			return
		case job != "":
			t.Errorf("asked for job %s", job)
		case r.URL.Query().Get("cursor") == "":
			list.Items, list.Next = []jobs.Trigger{ran("a", 12*time.Minute), ran("a", 12*time.Minute), ran("other", time.Hour), {Job: "b", Outcome: jobs.Ran}}, "more"
		default:
			list.Items = []jobs.Trigger{ran("a", 6*time.Minute), ran("b", 25*time.Minute)}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file.yaml")
	text := "version: 1\njobs:\n" +
		"  a: {schedule: \"*/10 * * * *\", command: [echo]}\n" +
		"  b: {schedule: \"*/20 * * * *\", concurrency: allow, command: [echo]}\n" +
		"  c: {schedule: \"0 * * * *\", command: [echo]}\n" +
		"  d: {schedule: \"0 * * * *\", command: [echo]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "-c", file, "--server", server.URL, "--to", "1h", "--step", "30m"}
	r := call(t, nil, args...)
	for _, want := range []string{
		"Durations are known of 3 jobs, from 5 runs.",
		"a     12m0s   6     3             forbid: 3 of 6 are skipped",
		"b     25m0s   3     2             allow: 2 of 3 run beside an earlier run",
		"RUNNING",
	} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %s\n%s\nwant %s", r.code, r.stderr, r.stdout, want)
		}
	}
	if len(asked) != 4 { // two pages, and the jobs without a run in them
		t.Errorf("asked for %q", asked)
	}
	var got simulated
	if r := call(t, nil, append(args, "-o", "json")...); r.code != 0 || json.Unmarshal([]byte(r.stdout), &got) != nil {
		t.Fatalf("exit code %d, %s", r.code, r.stdout)
	}
	if len(got.Overlaps) != 2 || got.Overlaps[0] != (overlap{"a", jobs.Forbid, "12m0s", 6, 3, false}) || got.Past == nil || got.Past.Runs != 5 || len(got.Load) != 2 || got.Load[0].Running < 2 {
		t.Errorf("%+v", got)
	}
	server.Close()
	if r := call(t, nil, args...); r.code != 1 || !strings.Contains(r.stderr, "scheduler serve") {
		t.Errorf("without the replica: exit code %d, %s", r.code, r.stderr)
	}
}
