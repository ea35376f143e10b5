package docs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The notification on the page is valid, and so is that of its test command.
func TestNotificationsOfThePage(t *testing.T) {
	servers.Need(t, "curl")
	const page, receiver = "docs/notifications.md", "https://hooks.example.com/KEY"
	all := blocks(t, page)
	find := func(language, part string) string {
		t.Helper()
		i := slices.IndexFunc(all, func(b block) bool { return b.language == language && strings.Contains(b.body, part) })
		if i < 0 {
			t.Fatalf("%s has no block of %s with %q", page, language, part)
		}
		return all[i].body
	}
	strict := func(what string, text []byte) {
		t.Helper()
		var n jobs.Notification
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&n); err != nil || n.ID == "" || n.Event == "" || n.Text == "" || n.At.IsZero() {
			t.Errorf("%s: %v, %+v", what, err, n)
		}
	}
	strict("the block", []byte(find("json", `"event"`)))

	sent := make(chan *http.Request, 1)
	var body []byte
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body) // an empty one is no notification
		sent <- r
	}))
	defer hook.Close()
	newReader(t).shell(page, strings.Replace(find("sh", "curl"), receiver, hook.URL, 1))
	r := <-sent
	if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") == "" {
		t.Errorf("the headers are %v", r.Header)
	}
	strict("what is sent", body)
}
