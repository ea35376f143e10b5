package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var toldOfFailure = jobs.Notification{
	ID: "failed/1", Event: jobs.EventFailed, Text: "job backup failed", Job: "backup", Attempt: 3, Error: "first \"line\"\nsecond <&> line",
	ScheduledAt: time.Date(2026, 6, 1, 2, 30, 0, 0, time.UTC), At: time.Date(2026, 6, 1, 2, 34, 0, 0, time.UTC),
}

// What a template makes of a notification.
func TestTemplates(t *testing.T) {
	for template, want := range map[string]string{
		`{"text": "{{.text}}"}`: `{"text":"job backup failed"}`,
		`{"a": [1, 2.50, true, null, {"b": "{{.job}}@{{.scheduled_at}}"}], "{{.job}}": "x & y", "e": {}, "l": []}`: `{"a":[1,2.50,true,null,{"b":"backup@2026-06-01T02:30:00Z"}],"{{.job}}":"x & y","e":{},"l":[]}`,
		`{"x": "{{.error}}"}`:                                                   `{"x":"first \"line\"\nsecond <&> line"}`,
		`{"x": "{{line .error}}"}`:                                              `{"x":"first \"line\""}`,
		`{"x": "{{slack .error}}"}`:                                             `{"x":"first \"line\"\nsecond &lt;&amp;&gt; line"}`,
		`{"x": "{{cut 7 .error}}"}`:                                             `{"x":"first …"}`,
		`{"x": "{{cut 300 .job}}"}`:                                             `{"x":"backup"}`,
		`{"x": "{{upper .event}}"}`:                                             `{"x":"FAILED"}`,
		`{"x": "{{.replica}}|{{.pool}}|{{.until}}|{{.count}}"}`:                 `{"x":"|||0"}`,
		`{"x": "{{if gt .attempt 1}}attempt {{.attempt}}{{else}}first{{end}}"}`: `{"x":"attempt 3"}`,
		`{"x": "{{if and .job (eq .event \"lost\" \"failed\")}}yes{{else if .pool}}no{{end}}"}`: `{"x":"yes"}`,
		`{"x": "{{or .reason .error | line | upper}}"}`:                                         `{"x":"FIRST \"LINE\""}`,
		`{"x": "{{/* a comment */}}{{- .job -}} "}`:                                             `{"x":"backup"}`,
		`{"x": "{{if gt .attempt 1}}{{if lt .attempt \"a\"}}{{end}}{{end}}"}`:                   "",
	} {
		parsed, err := jobs.ParseTemplate([]byte(template))
		if want == "" {
			if err == nil {
				t.Errorf("%s is allowed", template)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := string(parsed.Body(toldOfFailure)); got != want {
			t.Errorf("%s: %s, want %s", template, got, want)
		}
	}
}

// A text that cannot be filled in has the sentence in its place, the others are as they should be.
func TestATextThatCannotBeFilledIn(t *testing.T) {
	parsed, err := jobs.ParseTemplate([]byte(`{"x": "{{if eq .job \"backup\"}}{{lt .job 3}}{{end}}", "y": "{{.job}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(parsed.Body(toldOfFailure)), `{"x":"job backup failed","y":"backup"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What could run for long, or reach more than fields, is refused, with what to write.
func TestTemplatesThatAreRefused(t *testing.T) {
	for template, says := range map[string]string{
		`[]`:                                                "it is no object",
		`"{{.text}}"`:                                       "it is no object",
		`{"a": 1} {}`:                                       "something follows",
		`{"a": }`:                                           "not JSON",
		`{"a": "{{.jobb}}"}`:                                "did you mean .job?",
		`{"a": "{{.secret}}"}`:                              "there are at, attempt, count, error,",
		`{"a": "{{.job.name}}"}`:                            "no field .job.name",
		`{"a": "{{.}}"}`:                                    "is not allowed",
		`{"a": "{{$}}"}`:                                    "is not allowed",
		`{"a": "{{$x := .job}}"}`:                           "variables",
		`{"a": "{{range .text}}x{{end}}"}`:                  "is not allowed",
		`{"a": "{{with .text}}x{{end}}"}`:                   "is not allowed",
		`{"a": "{{define \"x\"}}y{{end}}"}`:                 "define and block",
		`{"a": "{{template \"text\"}}"}`:                    "is not allowed",
		`{"a": "{{printf \"%0999999999d\" 1}}"}`:            "printf is not allowed",
		`{"a": "{{call .job}}"}`:                            "call is not allowed",
		`{"a": "{{index .job 1}}"}`:                         "index is not allowed",
		`{"a": "{{html .job}}"}`:                            "html is not allowed",
		`{"a": "{{env \"HOME\"}}"}`:                         "the function env is not known",
		`{"a": "{{cut 0 .job}}"}`:                           "must be 1 or more",
		`{"a": "{{cut .job}}"}`:                             "cut",
		`{"a": "{{.job"}`:                                   `"{{.job": a {{ has no }}`,
		`{"a": "{{if .job}}x"}`:                             `: an {{if}} has no {{end}}`,
		`{"a": "x\n{{end}}"}`:                               `: line 2: unexpected {{end}}`,
		`{"a": "{{first .job}}"}`:                           `: the function first is not known; there are and, cut, eq, ge, gt, le, len, line, lt, ne, not, or, slack, upper`,
		`{"a": "{{slack}}"}`:                                `"{{slack}}": <slack>: wrong number of args for slack: want 1 got 0`,
		`{"a": "{{if .job}}{{range .text}}{{end}}{{end}}"}`: "is not allowed",
		`{"a": "{{if (call .job)}}{{end}}"}`:                "call is not allowed",
		`{"a": "{{(print .job).x}}"}`:                       "is not allowed",
		`{"a": "` + strings.Repeat("x", 64<<10) + `"}`:      "at most 65536",
		strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60): "nested more than 50 deep",
	} {
		_, err := jobs.ParseTemplate([]byte(template))
		if err == nil || !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v, want what says %q", template, err, says)
		}
	}
}

// Whatever the fields hold, the body has the form of the template, and a bounded size.
func TestNothingInjects(t *testing.T) {
	parsed, err := jobs.ParseTemplate([]byte(`{"text": "{{.text}} {{.error}}", "list": ["{{.job}}", {"deep": "{{cut 5 .error}}{{line .reason}}{{slack .pool}}"}], "last": "end"}`))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`"}, "text": "x`, "\\", "\"", "\u2028", "{{.job}}", "\xff\xfe", "\x00", strings.Repeat("é", 20_000)}))
		n := jobs.Notification{Text: some.Draw(t, "text"), Error: some.Draw(t, "error"), Job: some.Draw(t, "job"), Reason: some.Draw(t, "reason"), Pool: some.Draw(t, "pool")}
		body := parsed.Body(n)
		var got struct {
			Text string
			List []json.RawMessage
			Last string
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || d.More() || got.Last != "end" || len(got.List) != 2 {
			t.Fatalf("%v: %s", err, body)
		}
		if len(got.Text) > 16<<10 || len(body) > 64<<14 {
			t.Fatalf("it has %d bytes, the text %d", len(body), len(got.Text))
		}
		keys := map[string]any{}
		if err := json.Unmarshal(body, &keys); err != nil || len(keys) != 3 {
			t.Fatalf("%v: %d keys", err, len(keys))
		}
	})
}

// The handler gets the body as its payload, and what it is otherwise stays; the template is a part of its identity.
func TestTemplatesAreSent(t *testing.T) {
	parsed, err := jobs.ParseTemplate([]byte(`{"text": "{{.job}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := jobs.ParseTemplate([]byte(` {"text":"{{.pool}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	inner := jobs.Named("inner", jobs.Func(func(_ context.Context, task jobs.Task, p json.RawMessage) error {
		if got = string(p); task.PayloadSize != len(p) {
			t.Errorf("the payload has %d bytes, its size is %d", len(p), task.PayloadSize)
		}
		return nil
	}))
	sent := parsed.Send(inner)
	payload, _ := json.Marshal(toldOfFailure)
	if err := sent.Run(t.Context(), jobs.Task{Payload: payload}, io.Discard); err != nil || got != `{"text":"backup"}` {
		t.Errorf("%v, sent %s", err, got)
	}
	if err := sent.Run(t.Context(), jobs.Task{Payload: []byte("no JSON")}, io.Discard); !jobs.IsPermanent(err) {
		t.Errorf("a payload that is none: %v", err)
	}
	hash := func(h jobs.Handler) string { return jobs.Job{Notify: jobs.Notify{Handler: h}}.Hash() }
	again, _ := jobs.ParseTemplate([]byte(`{"text":   "{{.job}}"}`))
	if hash(sent) == hash(inner) || hash(sent) == hash(other.Send(inner)) || hash(sent) != hash(again.Send(inner)) || hash(sent) == hash(parsed.Send(jobs.Named("other", inner))) {
		t.Error("the hash does not tell the template")
	}
	if d, ok := sent.(interface{ Unwrap() jobs.Handler }); !ok || d.Unwrap() == nil || parsed.Send(nil) != nil {
		t.Error("the handler is not found in it")
	}
}
