package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// hostile has one of each character that controls a terminal or reorders text.
const hostile = "a\x1b]0;title\x07b\x00c\x7fd\u009b31me\u202ef\u2066g\u2028h\xffi"

// shownHostile is hostile escaped.
const shownHostile = `a\x1b]0;title\x07b\x00c\u007fd\u009b31me\u202ef\u2066g\u2028h\xffi`

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		hostile:              shownHostile,
		"plain\ttext\nläuft": "plain\ttext\nläuft",
		"a\r\nb\rc":          "a\nb\\x0dc",
		"cut\xe2\x80":        `cut\xe2\x80`,
		"end\r":              `end\x0d`,
		"\u061c\u2069\ufffd": `\u061c\u2069` + "\ufffd",
		"\ufffe\uffff":       `\ufffe\uffff`,
	} {
		for size := 1; size <= len(text); size++ {
			var out bytes.Buffer
			v := &visible{w: &out}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := io.WriteString(v, rest[:n]); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			if v.flush(); out.String() != want {
				t.Errorf("%q in portions of %d: %q, want %q", text, size, out.String(), want)
			}
		}
	}
}

// orders matches control characters other than line breaks and tabs.
var orders = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{61c}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{2028}\x{2029}]`)

func wantHarmless(t *testing.T, what, said string) {
	t.Helper()
	if i := orders.FindStringIndex(said); i != nil || strings.ToValidUTF8(said, "") != said {
		t.Errorf("%s: control characters: %q", what, said)
	}
}

// No text of a replica controls a terminal.
func TestNothingCommandsATerminal(t *testing.T) {
	t.Parallel()
	quoted, _ := json.Marshal(strings.ToValidUTF8(hostile, ""))
	h := string(quoted)
	answers := map[string]string{
		"/api/v1/jobs":     `{"items":[{"name":"a","description":` + h + `,"schedules":[` + h + `],"labels":{` + h + `:` + h + `},"last":{"job":"a","reason":` + h + `,"by":` + h + `,"outcome":"skipped"}}]}`,
		"/api/v1/pools":    `{"items":[{"name":"a","description":` + h + `,"paused":true,"paused_by":` + h + `}]}`,
		"/api/v1/triggers": `{"items":[{"job":"a","reason":` + h + `,"by":` + h + `,"outcome":"skipped"}]}`,
		"/api/v1/tasks":    `{"items":[{"id":"1","pool":"a","state":"failed","error":` + h + `,"reason":` + h + `,"tags":[` + h + `],"replica":` + h + `}]}`,
		"/api/v1/replicas": `{"items":[{"replica":"a","labels":{"zone":` + h + `},"version":` + h + `,"address":` + h + `,"lock_service":` + h + `,"host":` + h + `}]}`,
		"/api/v1/locks":    `{"items":[{"key":` + h + `,"owner":` + h + `,"meta":` + h + `}]}`,
		"/api/v1/audit":    `{"items":[{"by":` + h + `,"action":` + h + `,"object":` + h + `,"target":` + h + `,"detail":` + h + `}]}`,
	}
	answers["/api/v1/pools/a/limits"] = `{"name":"a","max_running":1,"limits_override":{"max_running":1},"limits_by":` + h + `}`
	answers["/api/v1/jobs/a"] = strings.TrimSuffix(strings.TrimPrefix(answers["/api/v1/jobs"], `{"items":[`), `]}`)
	answers["/api/v1/tasks/1"] = `{"task":` + strings.TrimSuffix(strings.TrimPrefix(answers["/api/v1/tasks"], `{"items":[`), `]}`) +
		`,"attempts":[{"attempt":1,"error":` + h + `,"replica":` + h + `}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch answer, known := answers[r.URL.Path]; {
		case known:
			fmt.Fprint(w, answer)
		case r.URL.Path == "/api/v1/tasks/1/logs":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, hostile)
		case r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, hostile)
		default:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"error":{"code":"conflict","message":%s}}`, h)
		}
	}))
	t.Cleanup(server.Close)
	environ := []string{"LOCKSTEP_SERVER=" + server.URL}
	for _, args := range [][]string{
		{"jobs", "list"}, {"jobs", "get", "a"}, {"triggers", "list"}, {"tasks", "list"}, {"tasks", "get", "1"},
		{"replicas", "list"}, {"locks", "list"}, {"audit", "list"}, {"jobs", "suspend", "a"}, {"jobs", "run", "a"}, {"pools", "pause", "a"}, {"pools", "set", "a", "--burst", "1"},
		{"tasks", "cancel", "1"}, {"healthcheck", "--ready", "--server", server.URL}, {"jobs", "get", "b"},
		{hostile}, {"jobs", hostile}, {"--" + hostile}, {"jobs", "list", "-o", hostile}, {"jobs", "get", hostile}, {"validate", hostile},
		{"next", "@yearly" + hostile},
	} {
		got := call(t, environ, args...)
		wantHarmless(t, fmt.Sprintf("%.40q", args), got.stdout+got.stderr)
		if !strings.Contains(got.stdout+got.stderr, `x1b]0;title`) {
			t.Errorf("%q does not show the text: %s%s", args, got.stdout, got.stderr)
		}
	}
	// JSON is unchanged.
	if got := call(t, environ, "tasks", "logs", "1"); got.stdout != hostile+"\n" {
		t.Errorf("an output became %q", got.stdout)
	}
	var list []struct{ Description string }
	if got := call(t, environ, "jobs", "list", "-o", "json"); json.Unmarshal([]byte(got.stdout), &list) != nil || list[0].Description != strings.ToValidUTF8(hostile, "") || !strings.Contains(got.stdout, "d\u009b31me\u202ef") {
		t.Errorf("JSON became %q", got.stdout)
	}
	list = nil
	if got := call(t, environ, "jobs", "list", "-o", "yaml"); yaml.Unmarshal([]byte(got.stdout), &list) != nil || len(list) != 1 || list[0].Description != strings.ToValidUTF8(hostile, "") {
		t.Errorf("YAML became %q %s", got.stdout, got.stderr)
	}
}

// A replica's log on a terminal is text: the handler quotes values, and visible escapes the rest.
func TestALogOnATerminalIsHarmless(t *testing.T) {
	var out bytes.Buffer
	v := &visible{w: &out}
	slog.New(slog.NewTextHandler(v, nil)).Warn("said "+hostile, "error", hostile, hostile, "x")
	v.flush()
	wantHarmless(t, "a line", out.String())
	if !strings.Contains(out.String(), "title") {
		t.Error(out.String())
	}
}
