package docs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// plain is a job as Dkron's API returns it with few settings: others are empty, null and zero.
const plain = `{"id": "plain", "name": "plain", "displayname": "", "timezone": "", "schedule": "@every 10s", "owner": "",
"owner_email": "", "success_count": 0, "last_success": null, "disabled": true, "tags": null, "metadata": null, "retries": 0,
"dependent_jobs": null, "parent_job": "", "processors": null, "concurrency": "allow", "executor": "shell",
"executor_config": {"command": "date"}, "status": "success", "ephemeral": false, "expires_at": null}`

// What the page's command makes of the page's job, and of a plain one, loads, and means what the page
// shows beside it.
func TestDkron(t *testing.T) {
	t.Parallel()
	servers.Need(t, "curl", "jq")
	const page = "docs/moving-from/dkron.md"
	all := blocks(t, page)
	find := func(language, part string) string {
		t.Helper()
		i := slices.IndexFunc(all, func(b block) bool { return b.language == language && strings.Contains(b.body, part) })
		if i < 0 {
			t.Fatalf("%s has no block of %s with %q", page, language, part)
		}
		return all[i].body
	}
	const path = "http://dkron:8080/v1/jobs"
	theirs, ours, command := find("json", `"executor_config"`), find("yaml", "backup:"), find("sh", path)
	dkron := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/jobs" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "["+theirs+","+plain+"]")
	}))
	defer dkron.Close()

	r := newReader(t)
	r.install()
	r.shell(page, strings.Replace(command, path, dkron.URL+"/v1/jobs", 1))
	made, err := config.Load(filepath.Join(r.dir, "lockstep.yaml"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := config.LoadBytes("shown.yaml", []byte(whole(block{body: ours})), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, want := made.Set.Jobs["backup"], shown.Set.Jobs["backup"]
	got.Retries.Backoff = want.Retries.Backoff            // Dkron has none
	got.Schedule = strings.TrimPrefix(got.Schedule, "0 ") // its seconds
	got.Handler, want.Handler = nil, nil                  // a shell's line there, arguments here
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("backup (-shown +made):\n%s", diff)
	}
	if p := made.Set.Jobs["plain"]; p.Schedule != "@every 10s" || !p.Suspend || p.Concurrency != jobs.Allow || p.Retries.Limit != 0 {
		t.Errorf("plain is %+v", p)
	}
}
