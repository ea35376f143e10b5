package docs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
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

// The templates of the page make of a notification what Slack and Teams take, whatever is in it.
func TestTemplatesOfThePage(t *testing.T) {
	told := jobs.Notification{
		ID: "failed/1", Event: jobs.EventFailed, Job: "a", TaskID: "1", Attempt: 2, Replica: "web-1", At: time.Date(2026, 6, 1, 2, 34, 10, 0, time.UTC),
		Text: `job a failed: <!channel> "}]} & [link](http://evil.example)`, Error: "\"",
	}
	found := map[string]string{}
	for _, b := range blocks(t, "docs/notifications.md") {
		if b.language != "yaml" || !strings.Contains(b.body, "template:") {
			continue
		}
		c, err := config.LoadBytes("lockstep.yaml", []byte(whole(b)+"jobs: {a: {command: [/bin/true]}}\n"), config.Options{})
		if err != nil {
			t.Fatalf("%s: %v", b.at(), err)
		}
		var sent []byte
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent, _ = io.ReadAll(r.Body) }))
		text := regexp.MustCompile(`https://[^"]*`).ReplaceAllString(whole(b), hook.URL)
		if c, err = config.LoadBytes("lockstep.yaml", []byte(text+"jobs: {a: {command: [/bin/true]}}\n"), config.Options{}); err != nil {
			t.Fatalf("%s: %v", b.at(), err)
		}
		payload, _ := json.Marshal(told)
		err = c.Set.Jobs["a"].Notify.Handler.Run(t.Context(), jobs.Task{ID: "1", Pool: "notifications", Payload: payload}, io.Discard)
		hook.Close()
		var body map[string]any
		if err != nil || json.Unmarshal(sent, &body) != nil {
			t.Fatalf("%s: %v, sent %s", b.at(), err, sent)
		}
		switch {
		case body["blocks"] != nil:
			found["slack"] = string(sent)
		case body["attachments"] != nil:
			found["teams"] = string(sent)
		}
	}
	for chat, parts := range map[string][]string{
		"slack": {`"text":"job a failed: &lt;!channel&gt; \"}]} &amp; [link](http://evil.example)"`, `:rotating_light: *job a failed`, `"task 1, attempt 2 on web-1, 2026-06-01T02:34:10Z"`},
		"teams": {`"$schema":"http://adaptivecards.io/`, `"text":"a: failed","color":"attention"`, `"text":"job a failed: <!channel> \"}]} & [link](http://evil.example)"`},
	} {
		for _, part := range parts {
			if !strings.Contains(found[chat], part) {
				t.Errorf("%s gets %s, without %s", chat, found[chat], part)
			}
		}
	}
}
