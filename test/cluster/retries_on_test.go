//go:build unix

package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// A failure with a code that retries.on lists is retried, as often as the limit says or until it succeeds; one with another code ends its task at once,
// with the reason code not_retried. The codes are those of commands that exit and of a server that answers.
func TestCodesOfCommandsAndAnswers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		switch {
		case r.URL.Path == "/missing":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/busy", asked[r.URL.Path] < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	text := fmt.Sprintf(`version: 1
store: {driver: sqlite, dsn: lockstep.db}
pools:
  mail: {http: {url: "%[1]s/missing"}, retries: {limit: 2, backoff: 100ms, on: [503]}}
jobs:
  listed:     {shell: 'echo run >>listed; exit 75', retries: {limit: 2, backoff: 100ms, on: [1, 75]}}
  recovers:   {shell: 'echo run >>recovers; [ "$LOCKSTEP_ATTEMPT" = 2 ] || exit 75', retries: {limit: 2, backoff: 100ms, on: [75]}}
  unlisted:   {shell: 'echo run >>unlisted; exit 3', retries: {limit: 2, backoff: 100ms, on: [1, 75]}}
  changes:    {shell: 'echo run >>changes; [ "$LOCKSTEP_ATTEMPT" = 2 ] && exit 3; exit 75', retries: {limit: 5, backoff: 100ms, on: [75]}}
  signalled:  {shell: 'echo run >>signalled; kill -KILL $$', retries: {limit: 1, backoff: 100ms, on: [137]}}
  busy:       {http: {url: "%[1]s/busy"}, retries: {limit: 2, backoff: 100ms, on: [503]}}
  back:       {http: {url: "%[1]s/back"}, retries: {limit: 2, backoff: 100ms, on: [429, 503]}}
  missing:    {http: {url: "%[1]s/missing"}, retries: {limit: 2, backoff: 100ms, on: [503]}}
`, server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	ended := func(what, filter string) (task wire.Task) {
		t.Helper()
		program.Within(t, 60*time.Second, what+" has ended", func() bool {
			var list wire.List[wire.Task]
			if err := r.call("GET", "/api/v1/tasks?"+filter, nil, &list); err != nil || len(list.Items) != 1 {
				return false
			}
			task = list.Items[0]
			return task.State != "pending" && task.State != "running"
		})
		return task
	}
	cases := []struct {
		job      string
		state    string
		attempts int
		code     string // of the reason
	}{
		{"listed", "failed", 3, "exit_code"},
		{"recovers", "succeeded", 2, ""},
		{"unlisted", "failed", 1, "not_retried"},
		{"changes", "failed", 2, "not_retried"},
		{"signalled", "failed", 2, "exit_code"},
		{"busy", "failed", 3, "error"},
		{"back", "succeeded", 3, ""},
		{"missing", "failed", 1, "not_retried"},
	}
	for _, c := range cases {
		r.post(t, "/api/v1/jobs/"+c.job+"/run")
	}
	for _, c := range cases {
		got := ended(c.job, "job="+c.job)
		mu.Lock()
		ran := asked["/"+c.job]
		mu.Unlock()
		if text, err := os.ReadFile(filepath.Join(dir, c.job)); err == nil {
			ran = strings.Count(string(text), "run")
		}
		if string(got.State) != c.state || got.Attempt != c.attempts || string(got.ReasonCode) != c.code || ran != c.attempts {
			t.Errorf("%s: %s after attempt %d, reason code %q (%s), and it ran %d times; want %+v", c.job, got.State, got.Attempt, got.ReasonCode, got.Reason, ran, c)
		}
	}
	r.enqueue(t, "mail", 1)
	if got := ended("a task of a pool", "pool=mail"); got.State != "failed" || got.Attempt != 1 || got.ReasonCode != "not_retried" {
		t.Errorf("%+v", got)
	}
	r.Drain(t, 30*time.Second)
}
