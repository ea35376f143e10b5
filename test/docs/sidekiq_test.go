package docs

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

// The configuration on Sidekiq's page has the endpoint called as the page says: with the payload as the body, and the key and the
// attempt as headers; what it answers decides.
func TestSidekiqPage(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.Join([]string{r.Method, r.URL.Path, string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Lockstep-Attempt")}, " "))
		if len(seen) == 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	text := ""
	for _, b := range blocks(t, "docs/moving-from/sidekiq.md") {
		if b.language == "yaml" && strings.Contains(b.body, "http://app.internal") {
			text += whole(b)
		}
	}
	c, err := config.LoadBytes("lockstep.yaml", []byte(strings.ReplaceAll(text, "http://app.internal", server.URL)), config.Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	bench := schedulertest.New(t, c.Set, schedulertest.Options{})
	var tasks []jobs.Task
	for _, payload := range []string{`{"user_id":7}`, `{"user_id":8}`} { // one after the other
		tasks = append(tasks, bench.Enqueue(jobs.NewTask{Pool: "crm", Kind: "CrmSync", Payload: json.RawMessage(payload)})...)
		bench.Drain()
	}
	want := []string{`POST /tasks/crm_sync {"user_id":7} ` + tasks[0].ID + " 1", `POST /tasks/crm_sync {"user_id":8} ` + tasks[1].ID + " 1"}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	if left := bench.Pending(); len(left) != 1 || left[0].ID != tasks[1].ID || left[0].Attempt != 1 {
		t.Errorf("after status 500: %+v", left)
	}
}
