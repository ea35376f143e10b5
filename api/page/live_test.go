package page_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func fine(_ context.Context, t jobs.Task, out io.Writer) error {
	fmt.Fprintln(out, "hello from", t.Job)
	return nil
}

// TestLive: changes appear without a reload, on the first page and on that of a job.
func TestLive(t *testing.T) {
	t.Parallel()
	work := &switchable{}
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{
		"backup": {Schedule: "@yearly", Handler: work, Description: "Full backup of orders"},
		"weekly": {Schedule: "@weekly", Handler: does(fine), Suspend: true},
	}}, api.Options{})
	all, one := newTab(t, 1280), newTab(t, 1280)
	all.navigate(s.url)
	one.navigate(s.url + "jobs/backup")
	all.says("#headline", "Healthy")
	all.says("#sum", "2 jobs · 1 live replica")
	all.says("#replicas", "replica-1")
	all.says("#replicas", "1.2.3")
	all.says("#pools", "default")
	all.says("#next", "suspended")
	all.says("#recent", "No due times yet.")
	one.says("#headline", "Not due yet")
	one.says("#facts", "@yearly")
	for _, b := range []*tab{all, one} {
		eval[bool](b, "window.same = true") // gone after a reload
	}

	s.run("backup")
	all.says("#recent", "succeeded")
	one.says("#triggers", "succeeded")
	one.says("#headline", "Its last run succeeded")

	work.broken.Store(true)
	task := s.run("backup")
	all.says("#headline", "One problem")
	all.says("#findings", "one fails: backup")
	all.says("#broken", "the disk is full")
	all.says("#trouble", "the disk is full")
	one.says("#headline", "Its last run failed")
	one.says("#triggers", "the disk is full")
	one.click(`button[data-task="` + task.ID + `"]`)
	one.says(".more", "hello from backup")

	work.broken.Store(false)
	s.run("backup")
	all.says("#headline", "Healthy")
	all.until("the list of failing jobs is gone", `document.querySelector("#broken").hidden`)
	one.says("#headline", "Its last run succeeded")
	one.says(".more", "hello from backup") // what was opened stays open
	for _, b := range []*tab{all, one} {
		if !eval[bool](b, "window.same") {
			t.Error("the page was loaded anew")
		}
		if text := strings.ToLower(b.text("body") + eval[string](b, "document.title")); strings.Contains(text, "session") {
			t.Errorf("the page speaks of sessions:\n%s", text)
		}
	}

	all.navigate(s.url + "jobs/backup#" + task.ID) // as the overview's links do
	all.says(".more", "the disk is full")
	all.navigate(s.url + "jobs/nobody")
	all.says("#headline", "there is no job")
}

// TestPools: pending and running tasks are shown, and a pool without progress is a warning.
func TestPools(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	s := newScene(t, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Workers: 1, Retries: jobs.Retries{Limit: jobs.NoRetries}, Kinds: map[string]jobs.Handler{
			"slow": does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
				_ = task.Progress(0.4, "two of five")
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil
			}),
			"bad": does(func(_ context.Context, task jobs.Task, _ io.Writer) error {
				return errors.Join(task.SetResult(map[string]string{"refused": "by the server"}), errors.New("no such address"))
			}),
		}},
		"still":   {Handler: does(fine)},
		"tenants": {PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 5, Per: time.Second}, Burst: 10}, Order: jobs.OrderKey, Fair: &jobs.Fair{}, Handler: does(fine)},
	}}, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#pools", "per key at most 1, 5/s burst 10, in order, fair")
	if err := s.store.Sides().API.PausePool(t.Context(), "still", "ann", new(true)); err != nil {
		t.Fatal(err)
	}
	for _, task := range []jobs.NewTask{{Pool: "still"}, {Pool: "still"}, {Pool: "mail", Kind: "slow"}} {
		if _, err := s.store.Enqueue(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	b.says("#running", "mail / slow")
	b.says("#running", "40%, two of five")
	b.says("#findings", "still is paused, 2 tasks pending")
	b.says("#pools", "by ann")
	if strings.Contains(b.text("#pools"), "limits overridden") {
		t.Error(b.text("#pools"))
	}
	set := &wire.PoolLimits{MaxRunning: new(5), Rate: &jobs.Rate{Count: 100, Per: time.Second}, Burst: new(20)}
	if err := s.store.Sides().API.LimitPool(t.Context(), "mail", "bob", set); err != nil {
		t.Fatal(err)
	}
	b.says("#pools", "limits overridden by bob")
	byKey := &wire.PoolLimits{PerKey: &wire.LimitFields{Rate: new(jobs.Rate{Count: 7, Per: time.Second})}, Fair: &wire.Fair{Weights: map[string]int{"acme": 3}}}
	if err := s.store.Sides().API.LimitPool(t.Context(), "tenants", "bob", byKey); err != nil {
		t.Fatal(err)
	}
	b.says("#pools", "per key at most 1, 7/s burst 10, in order, fair acme 3")
	b.says("#pools", "1 of 5")
	b.says("#pools", "100/s burst 20")
	b.says("#headline", "One warning")
	close(release)
	b.says("#running", "No task is running")
	if _, err := s.store.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "bad", Key: "tenant-7", ExpiresAt: time.Now().Add(time.Hour), Timeout: 90 * time.Second, Backoff: time.Second, Payload: map[string]string{"to": "nobody@example.org"}}); err != nil {
		t.Fatal(err)
	}
	b.says("#trouble", "no such address")
	b.says("#findings", "a task failed within the last hour")
	b.click("#trouble button[data-task]")
	b.says("#trouble .more", "nobody@example.org")
	b.says("#trouble .more", "tenant-7")
	b.says("#trouble .more", "Expires")
	b.says("#trouble .more", "by the server")
	b.says("#trouble .more", "timeout 1m30s, backoff 1s")
	many := make([]jobs.NewTask, 500)
	for i := range many {
		many[i].Pool = "still"
	}
	for range 20 {
		if _, err := s.store.Enqueue(t.Context(), many...); err != nil {
			t.Fatal(err)
		}
	}
	b.says("#pools", "≥ 10000")
	b.says("#findings", "still is paused, ≥ 10000 tasks pending")
}

// TestManyFailures: all failures are counted, also those without a row.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Workers: 8, Retries: jobs.Retries{Limit: jobs.NoRetries}, Kinds: map[string]jobs.Handler{
			"bad":   does(func(context.Context, jobs.Task, io.Writer) error { return errors.New("no such address") }),
			"worse": does(func(context.Context, jobs.Task, io.Writer) error { return errors.New("no such host") }),
		}},
	}}, api.Options{})
	var tasks []jobs.NewTask
	for range 45 {
		tasks = append(tasks, jobs.NewTask{Pool: "mail", Kind: "bad"})
	}
	tasks = append(tasks, jobs.NewTask{Pool: "mail", Kind: "worse"}, jobs.NewTask{Pool: "mail", Kind: "worse"})
	if _, err := s.store.Enqueue(t.Context(), tasks...); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#findings", "mail: 47 tasks failed within the last hour")
	b.says("#trouble", "×45 within the last hour")
	b.says("#trouble", "×2 within the last hour")
	if n := eval[int](b, `document.querySelectorAll("#trouble tbody tr").length`); n != 2 {
		t.Errorf("%d rows for two kinds of failures:\n%s", n, b.text("#trouble"))
	}
}

// TestFailingWebhook: a notification that cannot be delivered is a problem.
func TestFailingWebhook(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"report": {
		Handler: does(func(context.Context, jobs.Task, io.Writer) error { return errors.New("no paper") }),
		Notify: jobs.Notify{Handler: does(func(context.Context, jobs.Task, io.Writer) error {
			return jobs.RetryAfter(time.Hour, errors.New("refused"))
		})},
	}}}, api.Options{})
	s.run("report")
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#findings", "cannot be delivered: 1 task waits for a retry")
}

// TestSearch: jobs are found by prefix, among many.
func TestSearch(t *testing.T) {
	t.Parallel()
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for i := range 300 {
		set.Jobs[fmt.Sprintf("job-%03d", i)] = jobs.Job{Handler: does(fine)}
	}
	s := newScene(t, set, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#sum", "300 jobs")
	type in struct{ text, want string }
	for _, c := range []in{{"job-29", "job-299"}, {"job-", "and more: type on"}, {"x", "No job begins with “x”"}, {"<b>", "is not a name"}} {
		eval[bool](b, fmt.Sprintf(`(() => { const i = document.querySelector("#search"); i.value = %s; i.dispatchEvent(new Event("input")); return true; })()`, quote(c.text)))
		b.says("#found", c.want)
	}
}

// TestDisconnected: a page without its replica says since when, and recovers.
func TestDisconnected(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Handler: does(fine)}}}, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#headline", "Healthy")
	address := strings.Trim(strings.TrimPrefix(s.url, "http://"), "/")
	s.close()
	b.says("#banners", "Disconnected since")
	b.says("#headline", "Disconnected")
	b.until("the title says so", `document.title.startsWith("✕ Disconnected")`)
	s.run("backup")
	if strings.Contains(b.text("#recent"), "succeeded") {
		t.Error("it is not disconnected")
	}
	s.open(address)
	b.says("#recent", "succeeded")
	b.until("the banner is gone", `document.querySelector("#banners").innerText === ""`)
	b.says("#headline", "Healthy")
	b.until("the title says so", `document.title.startsWith("✓ Healthy")`)
}

// TestToken: with access control the page requests a token, keeps it in its tab only, and shows the error of a bad one.
func TestToken(t *testing.T) {
	t.Parallel()
	secret, token := api.NewToken("ann", api.Viewer, time.Now().Add(time.Hour))
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Handler: does(fine)}}}, api.Options{Access: api.NewTokens(token)})
	s.run("backup")
	b := newTab(t, 1280)
	b.navigate(s.url)
	enter := func(text string) {
		t.Helper()
		b.until("there is a form", `document.querySelector("#token")`)
		eval[bool](b, fmt.Sprintf(`(() => { document.querySelector("#token").value = %s; document.querySelector("form button").click(); return true; })()`, quote(text)))
	}
	if text := eval[string](b, `document.body.textContent`); strings.Contains(text, "backup") || strings.Contains(text, "replica-1") {
		t.Errorf("without a token the page shows:\n%s", text)
	}
	enter("wrong-" + secret)
	b.until("it says what is wrong", `document.querySelector("form [role=alert]")?.innerText.length > 10`)
	enter(secret)
	b.says("#recent", "succeeded")
	b.navigate(s.url + "jobs/backup")
	b.says("#headline", "Its last run succeeded")
	if got := eval[string](b, `document.cookie + localStorage.length + location.href`); strings.Contains(got, secret) || !strings.HasPrefix(got, "0http") {
		t.Errorf("the token is where others find it: %s", got)
	}
	b.click("#who button")
	b.until("it asks again", `document.querySelector("#token")`)
}

// TestInsecure: unrestricted access has a banner; restricted access has none.
func TestInsecure(t *testing.T) {
	t.Parallel()
	detail := make(chan string, 1)
	s := newScene(t, jobs.Set{}, api.Options{Conditions: func() []wire.Condition {
		now := <-detail
		detail <- now
		return []wire.Condition{{Name: "access", Ready: true, Detail: now}}
	}})
	detail <- "insecure: everybody who reaches 10.0.0.1:8080 may do everything"
	for _, path := range []string{"", "jobs/x"} {
		b := newTab(t, 1280)
		b.navigate(s.url + path)
		b.says("#banners", "everybody who reaches 10.0.0.1:8080")
	}
	<-detail
	detail <- "this machine only"
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#headline", "Healthy")
	b.says("#health", "this machine only")
	if got := b.text("#banners") + b.text("#findings"); got != "" {
		t.Errorf("said as wrong: %s", got)
	}
}

// TestWeakConnections: weak connections to the store and the lock service are a finding and a condition.
func TestWeakConnections(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{}, api.Options{Conditions: func() []wire.Condition {
		return []wire.Condition{
			{Name: "access", Ready: true, Detail: "TLS"},
			{Name: "connections", Ready: true, Detail: "insecure: store: the certificate is not checked"},
		}
	}})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#findings", "insecure: store: the certificate is not checked")
	b.says("#health", "connections: see above")
	b.says("#health", "TLS")
	if got := b.text("#headline"); strings.Contains(got, "Healthy") {
		t.Errorf("the headline is %q", got)
	}
}

// TestMounted: links work below a path that is stripped.
func TestMounted(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Handler: does(fine)}}}, api.Options{})
	s.run("backup")
	mux := http.NewServeMux()
	mux.Handle("/lock/step/", http.StripPrefix("/lock/step", s.handler))
	server := httptest.NewServer(mux)
	defer server.Close()
	b := newTab(t, 1280)
	b.navigate(server.URL + "/lock/step/")
	b.says("#recent", "succeeded")
	b.click("#recent a")
	b.says("#headline", "Its last run succeeded")
	b.says(".more", "hello from backup") // the link leads to the run
	b.click("nav a")
	b.says("#recent", "succeeded")
	if got := eval[string](b, "location.pathname"); got != "/lock/step/" {
		t.Error(got)
	}
	b.navigate("about:blank") // ends the stream, which this server would wait for
}
