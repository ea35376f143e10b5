package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
)

func write(t testing.TB, folder, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func TestInclude(t *testing.T) {
	folder := t.TempDir()
	main := write(t, folder, "lockstep.yaml", "version: 1\ninclude: [jobs.d/*.yaml, jobs.d/b.yaml, \"none/*.yaml\"]\n"+
		"defaults: {timeout: 7s}\njobs:\n  main: {command: [echo]}\n", 0o600)
	write(t, folder, "jobs.d/a.yaml", "pools:\n  p: {command: [cat]}\njobs:\n  a: {pool: p}\n", 0o600)
	write(t, folder, "jobs.d/b.yaml", "x-mine: 1\njobs:\n  b: {command: [echo], timeout: 9s}\n", 0o600)
	c, err := config.Load(main, options)
	if err != nil {
		t.Fatal(err)
	}
	timeouts := map[string]time.Duration{}
	for name, job := range c.Set.Jobs {
		timeouts[name] = job.Timeout
	}
	want := map[string]time.Duration{"main": 7 * time.Second, "a": 7 * time.Second, "b": 9 * time.Second}
	if diff := cmp.Diff(want, timeouts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c.Store.DSN != filepath.Join(folder, "lockstep.db") {
		t.Errorf("dsn %s is not beside the file", c.Store.DSN)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Problem, "no file matches") {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

// An error in the defaults is reported in the main file, also for a job of an included file.
func TestProblemsOfIncludedJobs(t *testing.T) {
	folder := t.TempDir()
	main := write(t, folder, "lockstep.yaml", "version: 1\ninclude: [jobs.d/*.yaml]\ndefaults:\n  pool: nightly\njobs: {}\n", 0o600)
	included := write(t, folder, "jobs.d/a.yaml", "jobs:\n  a: {command: [echo]}\n  b: {command: [echo], pool: daily}\n", 0o600)
	_, err := config.Load(main, options)
	var problems config.Errors
	if !errors.As(err, &problems) {
		t.Fatalf("%v", err)
	}
	var places []string
	for _, p := range problems {
		places = append(places, fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Path))
	}
	want := []string{main + ":4: jobs.a.pool", included + ":3: jobs.b.pool"}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("(-want +got)\n%s\n%v", diff, err)
	}
}

func TestSecretFiles(t *testing.T) {
	folder := t.TempDir()
	const text = "version: 1\nname: a\nlock:\n  driver: redis\n  redis: {password_file: secret}\njobs: {a: {command: [echo]}}\n"
	main := write(t, folder, "lockstep.yaml", text, 0o600)
	for _, test := range []struct {
		content string
		mode    os.FileMode
		want    string // the password
		warning string
		err     string
	}{
		{"hunter2\n", 0o600, "hunter2", "", ""},
		{"hunter2\r\n", 0o400, "hunter2", "", ""},
		{"hunter2", 0o644, "hunter2", "can be read by others (mode 0644)", ""},
		{"hunter2", 0o662, "", "", "can be written by others (mode 0662)"},
		{"\n", 0o600, "", "", "is empty"},
		{"hunter2\nhunter3\n", 0o600, "", "", "more than one line"},
		{strings.Repeat("x", 70<<10), 0o600, "", "", "is larger than 64 KiB"},
	} {
		secret := write(t, folder, "secret", test.content, test.mode)
		c, err := config.Load(main, options)
		os.Remove(secret)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%q: error %v, want %q", test.content, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", test.content, err)
			continue
		}
		if c.Lock.Redis.Password != test.want {
			t.Errorf("%q: password %q", test.content, c.Lock.Redis.Password)
		}
		if warned := fmt.Sprint(c.Warnings); !strings.Contains(warned, test.warning) || (test.warning == "") != (len(c.Warnings) == 0) {
			t.Errorf("%q: warnings %v", test.content, c.Warnings)
		}
	}
}
