package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// A crontab becomes a configuration that validate takes, and whose jobs are due as cron's lines.
func TestImportCrontab(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"PATH=" + os.Getenv("PATH"), "TZ=Europe/London"}
	write("all.cron", "# Say hello\n30 1 * * * echo hello\n")
	r := call(t, environ, "import", "crontab", "all.cron")
	if r.code != exitFine || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	write("lockstep.yaml", r.stdout)
	if r := call(t, environ, "validate"); r.code != exitFine || r.stderr != "" || !strings.Contains(r.stdout, "Europe/London") {
		t.Errorf("what import wrote: %+v", r)
	}
	// The clocks of London go forward over 01:30 on the next day.
	if r := call(t, environ, "next", "echo", "-n", "1"); r.code != exitFine || !strings.Contains(r.stdout, "2026-03-29T01:00:00Z") {
		t.Errorf("next: %+v", r)
	}

	write("some.cron", "@reboot start\n30 1 * * * echo hello\n")
	r = call(t, environ, "import", "crontab", "some.cron", "--timezone", "UTC")
	if r.code != exitFailed || !strings.Contains(r.stdout, "shell: echo hello") ||
		!strings.Contains(r.stderr, "some.cron:1: left out: @reboot") || !strings.Contains(r.stderr, "1 lines were left out, 1 became jobs") {
		t.Errorf("with @reboot: %+v", r)
	}

	write("system.cron", "30 1 * * * root echo hello\n")
	if r = call(t, environ, "import", "crontab", "system.cron", "--system"); r.code != exitFine || !strings.Contains(r.stdout, "shell: echo hello") {
		t.Errorf("with users: %+v", r)
	}
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader("@daily date\n"), stdout: &stdout, stderr: &stderr, now: time.Now}
	if code := a.execute(t.Context(), []string{"import", "crontab", "-"}); code != exitFine || !strings.Contains(stdout.String(), "shell: date") {
		t.Errorf("from standard input: %d, %s, %s", code, &stdout, &stderr)
	}
	for _, args := range [][]string{
		{"import", "crontab"}, {"import", "crontab", "all.cron", "--user", "--system"}, {"import", "crontab", "all.cron", "--timezone", "Mars/X"}, {"import", "crontabs"},
	} {
		if r := call(t, environ, args...); r.code != exitUsage || r.stdout != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := call(t, environ, "import", "crontab", "missing"); r.code != exitFailed || !strings.Contains(r.stderr, "missing") {
		t.Errorf("a missing file: %+v", r)
	}
}

func TestIsSystemFile(t *testing.T) {
	for path, want := range map[string]bool{
		"/etc/crontab": true, "/etc/cron.d/php": true, "/etc/cron.d/../cron.d/x": true, "crontab": false, "/etc/cron.daily/x": false, "-": false,
	} {
		if got := isSystemFile(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
