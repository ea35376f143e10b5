//go:build unix

package scheduler_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A command and a server report to the store by the replica that runs them, and so does the attempt of a command that fails and is
// tried again.
func TestCommandsAndServersReport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"attempt": %s}`, r.Header.Get("Lockstep-Attempt"))
	}))
	defer server.Close()
	goOn := filepath.Join(t.TempDir(), "go on")
	command, err := exechandler.New(exechandler.Command{Shell: `
		[ $LOCKSTEP_ATTEMPT = 2 ] || echo "30% first" > $LOCKSTEP_PROGRESS_FILE
		echo "{\"attempt\": $LOCKSTEP_ATTEMPT}" > $LOCKSTEP_RESULT_FILE
		until [ -e "$GO_ON$LOCKSTEP_ATTEMPT" ]; do sleep 0.05; done
		[ $LOCKSTEP_ATTEMPT = 2 ]`, Env: map[string]string{"GO_ON": goOn}, Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	request, err := httphandler.New(httphandler.Request{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	st := sqlite(t).open(t)
	r := start(t, st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {
		Kinds: map[string]jobs.Handler{"command": command, "request": request}, Retries: jobs.Retries{Limit: 1, Backoff: 1},
	}}}, scheduler.Options{ID: "a"})
	await.Until(t, "the pool is known", func() bool {
		pools, err := st.Sides().API.Pools(t.Context())
		return err == nil && len(pools) >= 2
	})
	added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: "command"}, jobs.NewTask{Pool: "p", Kind: "request"})
	if err != nil {
		t.Fatal(err)
	}
	r.Wake("p")
	result := func(id string) string {
		t.Helper()
		text, err := st.Result(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	id := added[0].Task.ID
	await.Until(t, "the progress of the command is shown", func() bool {
		got := task(t, st, id)
		return got.ProgressDone != nil && *got.ProgressDone == 0.3 && got.ProgressText == "first" && got.Attempt == 1
	})
	if err := os.WriteFile(goOn+"1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the second attempt runs", func() bool { got := task(t, st, id); return got.Attempt == 2 && got.State == jobs.StateRunning })
	if got := task(t, st, id); got.ProgressDone != nil || result(id) != "" {
		t.Errorf("the second attempt begins with %v %q, result %q", got.ProgressDone, got.ProgressText, result(id))
	}
	if err := os.WriteFile(goOn+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, st, id); got.State != jobs.StateSucceeded || result(id) != `{"attempt":2}` {
		t.Errorf("%s, result %q", got.State, result(id))
	}
	if got := ended(t, st, added[1].Task.ID); got.State != jobs.StateSucceeded || result(got.ID) != `{"attempt":1}` {
		t.Errorf("%s, result %q, %s", got.State, result(got.ID), got.Error)
	}
	for _, a := range added {
		if output, err := st.Output(t.Context(), a.Task.ID, 0); err == nil && strings.Contains(string(output), "no result") {
			t.Errorf("output %s", output)
		}
	}
}
