package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// parrot echoes each request: in the reason phrase, as a redirect, in the body.
func parrot(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		at := r.URL.RequestURI()
		fmt.Fprintf(conn, "HTTP/1.1 302 gone to %s\r\nLocation: http://elsewhere.example%[1]s\r\nContent-Length: %d\r\n\r\n%[1]s", at, len(at))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// No secret of the configuration is in any response, list, log or row, neither itself nor as a digest.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), parrot(t)
	file := filepath.Join(dir, "lockstep.yaml")
	put(t, file, fmt.Sprintf(`
version: 1
replica: {id: r1}
server: {listen: "127.0.0.1:0"}
defaults: {notify: {webhook: %q}}
pools:
  notifications: {retries: {limit: 1, backoff: 100ms}}
  mail: {http: {url: %q, headers: {Authorization: "Bearer CANARY-header"}, body: CANARY-body}, retries: {limit: 0}}
jobs:
  asks: {http: {url: %[2]q, headers: {X-Key: CANARY-header}}}
  fails: {shell: "exit 3", env: {PASSWORD: CANARY-value}}
`, to+"/services/T0CANARY/CANARYpath?k=CANARY-hook", to+"/mail?key=CANARY-query#CANARY-fragment"))

	ctx, cancel := context.WithCancel(t.Context())
	log := &logged{}
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"serve", "-c", file}, strings.NewReader(""), log, log) }()
	defer func() { cancel(); <-served }()
	await.Until(t, "it listens", func() bool { return log.server() != "" })
	c, err := client.New(log.server(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is ready", func() bool { r, err := c.Ready(t.Context()); return err == nil && r.Ready })
	for _, job := range []string{"asks", "fails"} {
		if _, err := c.RunJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all tasks ended, and a notification failed", func() bool {
		ended := 0
		tasks, err := c.Tasks(t.Context(), wire.TaskFilter{})
		for _, task := range tasks.Items {
			if task.State == jobs.StateFailed {
				ended++
			}
		}
		return err == nil && ended >= 5 // three of work; the jobs' two are told of
	})

	said := map[string]string{}
	paths := []string{"/", "/healthz", "/readyz", "/metrics", "/jobs/asks"}
	for _, list := range []string{"jobs", "pools", "triggers", "tasks", "replicas", "locks", "audit"} {
		paths = append(paths, "/api/v1/"+list)
	}
	for _, job := range []string{"asks", "fails"} {
		paths = append(paths, "/api/v1/jobs/"+job, "/api/v1/jobs/"+job+"/next", "/api/v1/jobs/"+job+"/triggers")
	}
	tasks, err := c.Tasks(t.Context(), wire.TaskFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks.Items {
		paths = append(paths, "/api/v1/tasks/"+task.ID, "/api/v1/tasks/"+task.ID+"/logs")
		got := call(t, []string{"LOCKSTEP_SERVER=" + log.server()}, "tasks", "logs", task.ID)
		said["tasks logs"] += got.stdout + got.stderr
		got = call(t, []string{"LOCKSTEP_SERVER=" + log.server()}, "tasks", "get", task.ID)
		said["tasks get"] += got.stdout + got.stderr
	}
	for _, path := range append(paths, "/api/v1/events") {
		said[path] = get(t, log.server()+path)
	}
	for _, args := range [][]string{
		{"jobs", "list"}, {"jobs", "get", "asks"}, {"jobs", "get", "fails"}, {"pools", "list"}, {"triggers", "list"}, {"tasks", "list"},
		{"replicas", "list"}, {"locks", "list"}, {"audit", "list"}, {"validate", file}, {"doctor", "-c", file}, {"next", "-c", file},
	} {
		for _, format := range formats {
			got := call(t, []string{"LOCKSTEP_SERVER=" + log.server()}, append(args, "-o", format)...)
			said[fmt.Sprint(args, format)] = got.stdout + got.stderr
		}
	}
	if said["/api/v1/events"] == "" {
		t.Error("no event came")
	}
	cancel()
	if code := <-served; code != exitFine {
		t.Errorf("exit code %d", code)
	}
	served <- 0
	said["log"] = log.text.String()
	for _, suffix := range []string{"", "-wal"} {
		rows, err := os.ReadFile(filepath.Join(dir, "lockstep.db") + suffix)
		if err != nil && suffix == "" {
			t.Fatal(err)
		}
		said["rows"+suffix] = string(rows)
	}

	digest := regexp.MustCompile(`=#[0-9a-f]{6,}| #[0-9a-f]{8}\b`)
	digests := digestsOf(t, file)
	for what, sum := range digests {
		if strings.HasPrefix(what, "hash") && !strings.Contains(said["rows"]+said["rows-wal"], sum) {
			t.Errorf("no row has the %s, %s, so its absence elsewhere proves nothing", what, sum)
		}
	}
	for where, text := range said {
		for what, sum := range digests {
			if !strings.HasPrefix(where, "rows") && strings.Contains(strings.ToLower(text), sum) {
				t.Errorf("%s has the %s, %s", where, what, sum)
			}
		}
		if i := strings.Index(text, "CANARY"); i >= 0 {
			t.Errorf("%s: %.300q", where, text[max(i-150, 0):])
		}
		if found := digest.FindString(text); found != "" && !strings.HasPrefix(where, "rows") && where != "/" && where != "/jobs/asks" {
			t.Errorf("%s has a digest: %s", where, found)
		}
	}
	for where, want := range map[string]string{
		"/api/v1/jobs": "PASSWORD=…", "[jobs get asks]table": "with X-Key", "tasks get": `gone to …?… to "http://elsewhere.example"`, "log": "elsewhere",
		"tasks logs": "…", "[validate " + file + "]json": "with Authorization", "/api/v1/tasks": "elsewhere.example",
	} {
		if !strings.Contains(said[where], want) {
			t.Errorf("%s lacks %q: %.600s", where, want, said[where])
		}
	}
}

// digestsOf are the hashes of definitions, which include secrets, and the digests of handlers.
func digestsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	c, err := config.Load(file, config.Options{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	identity := func(of string, h jobs.Handler) {
		if i, ok := unwrap.As[jobs.Identified](h); ok {
			for n, found := range regexp.MustCompile(`#([0-9a-f]{8,})`).FindAllStringSubmatch(i.Identity(), -1) {
				all[fmt.Sprintf("digest %d of %s", n, of)] = found[1]
			}
		}
	}
	for name, job := range c.Set.Jobs {
		all["hash of job "+name] = job.Hash()
		identity("job "+name, job.Handler)
		identity("what job "+name+" tells", job.Notify.Handler)
	}
	for name, pool := range c.Set.Pools {
		if name == naming.NotificationsPool {
			continue // its kinds are known when it is served
		}
		all["hash of pool "+name] = pool.Hash()
		identity("pool "+name, pool.Handler)
		for kind, hash := range pool.HandlerHashes() {
			all["hash of a handler of pool "+name+" "+kind] = hash
		}
	}
	if of := fmt.Sprintf("%x", sha256.Sum256([]byte("PASSWORD=CANARY-value")))[:8]; all["digest 0 of job fails"] != of || len(all) < 9 {
		t.Errorf("these are not all digests, %s of them: %v", of, all)
	}
	return all
}

var address = regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`)

// server is the address in the log of a replica; "" before it listens.
func (l *logged) server() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if at := address.FindString(line); strings.Contains(line, "listen") && at != "" {
			return "http://" + at
		}
	}
	return ""
}

// get reads a response; half a second of an endless one.
func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if strings.HasSuffix(url, "/events") {
		time.AfterFunc(500*time.Millisecond, cancel)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil && !strings.HasSuffix(url, "/events") {
		t.Fatalf("%s: %v", url, err)
	}
	return string(text)
}
