package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/client"
)

// The command at the end of a refusal is for the replica that refused, not the default one.
func TestTheCommandToCopyNamesTheReplica(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"code":"conflict","message":"lost; start it now: scheduler jobs run slow --force=T","force":"T"}}`)
	}))
	defer server.Close()
	for _, c := range []struct{ environ, args, want string }{
		{"", "jobs run slow --server " + server.URL, "start it now: scheduler --server " + server.URL + " jobs run slow --force=T"},
		{"LOCKSTEP_SERVER=" + server.URL, "jobs run slow", "start it now: scheduler jobs run slow --force=T"},
	} {
		if code, _, stderr := program(t, []string{c.environ}, strings.Fields(c.args)...); code != exitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// A replica that accepts requests and does not respond may be frozen.
func TestReplicaThatDoesNotAnswer(t *testing.T) {
	a := &app{serverFlag: "http://127.0.0.1:1"}
	err := a.explain(fmt.Errorf("client: %w", context.DeadlineExceeded))
	if text := err.Error(); !strings.Contains(text, "http://127.0.0.1:1 did not answer in time") || !strings.Contains(text, "another replica with --server") {
		t.Error(text)
	}
	err = a.explain(fmt.Errorf("client: %w: %w", client.ErrUnreachable, context.DeadlineExceeded))
	if text := err.Error(); strings.Contains(text, "frozen") || !strings.Contains(text, "Start a replica") {
		t.Errorf("no connection was made: %s", text)
	}
}

// The due times of a suspended job come with a note on stderr.
func TestNextOfASuspendedJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := "version: 1\njobs:\n  s: {schedule: \"@hourly\", command: [\"true\"], suspend: true}\n  r: {schedule: \"@hourly\", command: [\"true\"]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for job, noted := range map[string]bool{"s": true, "r": false} {
		code, stdout, stderr := program(t, nil, "-c", file, "next", job, "-n", "1")
		if code != exitFine || strings.Contains(stderr, "the file suspends job "+job) != noted || strings.Count(stdout, "\n") != 2 {
			t.Errorf("next %s: exit code %d, %s%s", job, code, stdout, stderr)
		}
	}
}

// A program that is not executable is named as in the file.
func TestACommandThatIsNotExecutableIsWarnedOf(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lockstep.yaml")
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("version: 1\njobs: {a: {command: [\"./run.sh\"]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := program(t, nil, "validate", file)
	if all := stdout + stderr; code != exitFine || !strings.Contains(all, `"./run.sh" is no program on this machine`) || !strings.Contains(all, "chmod +x") {
		t.Errorf("exit code %d, %s", code, all)
	}
}
