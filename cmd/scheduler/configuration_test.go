package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// served is a replica of the program, which runs until the test ends.
type served struct {
	t   *testing.T
	log *logged
	url string
}

// serveFile starts the program with a file.
func serveFile(t *testing.T, path string, args ...string) *served {
	t.Helper()
	s := &served{t: t, log: &logged{}}
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: s.log, now: time.Now}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- a.execute(ctx, append([]string{"serve", "-c", path}, args...)) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitFine {
			t.Errorf("exit code %d: %s", code, s.log.text.String())
		}
	})
	await.Until(t, "it has joined", func() bool { return s.log.has(`"msg":"joined"`) })
	s.log.mu.Lock()
	s.url = regexp.MustCompile(`http://[^"]+`).FindString(s.log.text.String())
	s.log.mu.Unlock()
	return s
}

// jobs are the names of the jobs that it shows.
func (s *served) jobs() string {
	_, body := status(s.t, http.DefaultClient, s.url+"/api/v1/jobs", "")
	var list wire.List[wire.Job]
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return body
	}
	var names []string
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return strings.Join(names, " ")
}

func (s *served) has(jobs string) {
	s.t.Helper()
	await.Until(s.t, "the jobs are "+jobs, func() bool { return s.jobs() == jobs })
}

func withJobs(more string, names ...string) string {
	text := "version: 1\nserver: {listen: \"127.0.0.1:0\"}\n" + more + "\njobs:\n"
	for _, name := range names {
		text += fmt.Sprintf("  %s: {schedule: \"0 0 29 2 *\", command: [echo]}\n", name)
	}
	return text
}

// swapFile writes a file as most editors do: another one takes its place.
func swapFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// A file that is replaced, or written in place, is loaded again, and so are its includes, also new ones. Files that came with the last load
// are watched from then on.
func TestChangedFilesAreLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "lockstep.yaml")
	swapFile(t, path, withJobs("", "a"))
	s := serveFile(t, path)
	s.has("a")
	swapFile(t, path, withJobs("", "a", "b"))
	s.has("a b")
	if err := os.WriteFile(path, []byte(withJobs("include: [jobs.d/*.yaml]", "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.has("a")
	more := filepath.Join(dir, "jobs.d")
	if err := os.Mkdir(more, 0o700); err != nil {
		t.Fatal(err)
	}
	swapFile(t, filepath.Join(more, "c.yaml"), "jobs: {c: {command: [echo]}}")
	s.has("a c") // its folder was not there before
	swapFile(t, filepath.Join(more, "d.yaml"), "jobs: {d: {command: [echo]}}")
	s.has("a c d")
	if !s.log.has(`"msg":"configuration loaded again","configuration":2,`) || !s.log.has(`"jobs":"1 added","pools":"as before"`) {
		t.Error("the log does not say what was loaded")
	}
}

// Kubernetes mounts a file as a link to one in a folder that is a link, too, and replaces that.
func TestSwappedLinksAreLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		swapFile(t, filepath.Join(dir, version, "lockstep.yaml"), text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	store := fmt.Sprintf("store: {dsn: %q}", filepath.Join(t.TempDir(), "lockstep.db"))
	swap("..1", withJobs(store, "a"))
	path := filepath.Join(dir, "lockstep.yaml")
	if err := os.Symlink("..data/lockstep.yaml", path); err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, path)
	s.has("a")
	swap("..2", withJobs(store, "b"))
	s.has("b")
	swap("..3", withJobs(store, "b", "c"))
	s.has("b c")
}

// An invalid file changes nothing, and is told of: in the log, in readiness, in the metrics, and to who asks for it, by line. The replica stays
// ready.
func TestAnInvalidFileKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	swapFile(t, path, withJobs("", "a"))
	s := serveFile(t, path)
	s.has("a")
	metric := func(want string) {
		t.Helper()
		if _, body := status(t, http.DefaultClient, s.url+"/metrics", ""); !strings.Contains(body, "\nlockstep_configuration_usable "+want+"\n") {
			t.Errorf("the metric is not %s", want)
		}
	}
	metric("1")
	swapFile(t, path, withJobs("", "a", "b")+"  c: {schedul: \"* * * * *\", command: [echo]}\n")
	line := path + `:7:7: jobs.c.schedul: unknown key; did you mean \"schedule\"?`
	ready := func() (int, string) { return status(t, http.DefaultClient, s.url+"/readyz", "") }
	await.Until(t, "readiness says so", func() bool {
		code, body := ready()
		return code == http.StatusOK && strings.Contains(body, `"configuration file","ready":true,"detail":"cannot be used, and the one before holds: `+line)
	})
	if !s.log.has(`"msg":"file changed and cannot be used; the previous content still applies","of":"configuration","error":"` + line) {
		t.Error("the log does not say so")
	}
	metric("0")
	out := call(t, nil, "reload", "--server", s.url)
	if out.code != exitFailed || !strings.Contains(out.stderr, strings.ReplaceAll(line, `\"`, `"`)) {
		t.Errorf("%+v", out)
	}
	if names := s.jobs(); names != "a" {
		t.Errorf("the jobs are %s", names)
	}
	swapFile(t, path, withJobs("", "a", "b"))
	s.has("a b")
	await.Until(t, "readiness says nothing more", func() bool { _, body := ready(); return !strings.Contains(body, "configuration file") })
	metric("1")
}

// What needs a restart is named, and the rest is loaded. Without watch: true only who asks has the file loaded. An older content needs
// --activate beside a newer one.
func TestReloadCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	swapFile(t, one, withJobs("watch: false\nreplica: {id: one}", "a"))
	swapFile(t, two, withJobs("watch: false\nreplica: {id: two}", "a", "b"))
	s := serveFile(t, one)
	other := serveFile(t, two)
	swapFile(t, one, withJobs("watch: false\nreplica: {id: one, workers: 3}\nlock: {ttl: 9s}", "a", "b", "c"))
	time.Sleep(2 * configSettle)
	if names := s.jobs(); names != "a b" { // of the newer file, which governs
		t.Errorf("the jobs are %s", names)
	}
	out := call(t, nil, "reload", "--server", s.url)
	want := regexp.MustCompile(`^replica one has configuration 3 \([0-9a-f]{12}\)\njobs added: b, c\nchanged, and as before until a restart: lock\.ttl, replica\.workers\n$`)
	if out.code != exitFine || !want.MatchString(out.stdout) {
		t.Errorf("%+v", out)
	}
	s.has("a b c")

	swapFile(t, one, withJobs("watch: false\nreplica: {id: one}", "a"))
	_ = call(t, nil, "reload", "--server", other.url)
	out = call(t, nil, "reload", "--server", s.url)
	if out.code != exitFine || !strings.Contains(out.stdout, "replica one has configuration 1 (") || !strings.Contains(out.stdout, "jobs removed: b, c\n") ||
		!strings.Contains(out.stdout, "configuration 2 (") || !strings.Contains(out.stdout, " of replica two governs what differs, as it is newer;") {
		t.Errorf("an older content: %+v", out)
	}
	s.has("a b")
	out = call(t, nil, "reload", "--activate", "--server", s.url)
	if out.code != exitFine || !strings.HasPrefix(out.stdout, "replica one has configuration 4 (") || !strings.Contains(out.stdout, "no job and no pool has changed\n") {
		t.Errorf("made the newest: %+v", out)
	}
	s.has("a")
	list := func() string { return call(t, nil, "replicas", "list", "--server", s.url).stdout }
	await.Until(t, "the list says which governs", func() bool {
		return regexp.MustCompile(`(?m)^one .* 4\* +[0-9a-f]{12} +\d`).MatchString(list()) && regexp.MustCompile(`(?m)^two .* 2 +[0-9a-f]{12} +\d`).MatchString(list())
	})
	await.Until(t, "it says what differs", func() bool {
		return strings.Contains(call(t, nil, "replicas", "list", "--server", s.url).stderr, "two has an older configuration than the one that governs, which has otherwise: 1 job: b\n")
	})
}

// What is wrong with a file that is loaded on demand is in the log, too, once: who sends SIGHUP sees nothing else.
func TestAnInvalidFileOnDemandIsLogged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	swapFile(t, path, withJobs("watch: false", "a"))
	s := serveFile(t, path)
	swapFile(t, path, withJobs("watch: false", "a")+"  c: {schedul: \"* * * * *\", command: [echo]}\n")
	for range 2 {
		if out := call(t, nil, "reload", "--server", s.url); out.code != exitFailed {
			t.Errorf("%+v", out)
		}
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if n := strings.Count(s.log.text.String(), `"msg":"file changed and cannot be used; the previous content still applies","of":"configuration"`); n != 1 {
		t.Errorf("the log says so %d times: %s", n, s.log.text.String())
	}
}

// Tokens that cannot be used are an error of the reload, and nothing else is loaded then.
func TestAReloadChecksTheTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, tokens := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "tokens.yaml")
	secret, admin := api.NewToken("admin", api.Admin, time.Time{})
	put(t, tokens, config.TokenLine(admin)+"\n")
	file := func(names ...string) string {
		return strings.Replace(withJobs("watch: false", names...), `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:0", auth: {tokens_file: tokens.yaml}`, 1)
	}
	swapFile(t, path, file("a"))
	s := serveFile(t, path)
	swapFile(t, path, file("a", "b"))
	swapFile(t, tokens, config.TokenLine(admin)+"\n- {name: second}\n")
	reload := func() result {
		return call(t, []string{"LOCKSTEP_API_TOKEN=" + secret}, "reload", "--server", s.url)
	}
	out := reload()
	if out.code != exitFailed || !strings.Contains(out.stderr, tokens+":2:") || !strings.Contains(out.stderr, "the previous content still applies") {
		t.Errorf("%+v", out)
	}
	swapFile(t, tokens, config.TokenLine(admin)+"\n")
	if out = reload(); out.code != exitFine || !strings.Contains(out.stdout, "jobs added: b\n") {
		t.Errorf("with good tokens: %+v", out)
	}
}
