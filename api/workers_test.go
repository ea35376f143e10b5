//go:build !fuzz

package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// office is one store with replicas, each with its API.
type office struct {
	t     *testing.T
	store *store.Store
	urls  []string
	stops []func()
	token string
	pools map[string]jobs.Pool // beside those of workerSet
	jobs  map[string]jobs.Job  // the same
}

// workerSet has a pool for workers, and one with a kind for them.
func workerSet(more map[string]jobs.Pool) jobs.Set {
	set := jobs.Set{
		Name: "prod",
		Pools: map[string]jobs.Pool{
			"mail":  {Handler: jobs.Worker{}, Retries: jobs.Retries{Limit: 2, Backoff: 10 * time.Millisecond}},
			"short": {Handler: jobs.Worker{}, Timeout: 500 * time.Millisecond, Retries: jobs.Retries{Limit: jobs.NoRetries}},
			"mixed": {Handler: jobs.Func(func(context.Context, jobs.Task, json.RawMessage) error { return nil }), Kinds: map[string]jobs.Handler{"pdf": jobs.Worker{}, "fax": jobs.Worker{}}},
			"one":   {Handler: jobs.Worker{}, MaxRunning: 1},
		},
		Jobs: map[string]jobs.Job{"letter": {Pool: "mail", Payload: map[string]string{"to": "world"}}},
	}
	maps.Copy(set.Pools, more)
	return set
}

func openOffice(t *testing.T, replicas int, ttl time.Duration, o api.Options, more ...map[string]jobs.Pool) *office {
	t.Helper()
	st, err := store.Open(t.Context(), "sqlite", filepath.Join(t.TempDir(), "lockstep.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	of := &office{t: t, store: st}
	if len(more) > 0 {
		of.pools = more[0]
	}
	for n := range replicas {
		of.open(fmt.Sprint("replica-", n), ttl, o)
	}
	return of
}

func (o *office) open(id string, ttl time.Duration, options api.Options) {
	o.t.Helper()
	set := workerSet(o.pools)
	maps.Copy(set.Jobs, o.jobs)
	r, err := scheduler.New(o.store, nil, set, scheduler.Options{ID: id, SessionTTL: ttl})
	if err != nil {
		o.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	go func() {
		served <- api.Serve(ctx, l, api.New(api.Backend{Store: o.store, Replica: r}, options), api.ServeOptions{})
	}()
	end := func() {
		stop()
		for _, done := range []chan error{ran, served} {
			if err := <-done; err != nil {
				o.t.Error(err)
			}
		}
	}
	ended := false
	o.stops = append(o.stops, func() {
		if !ended {
			ended = true
			end()
		}
	})
	o.t.Cleanup(o.stops[len(o.stops)-1])
	o.urls = append(o.urls, "http://"+l.Addr().String()+"/api/v1/")
	await.Until(o.t, "the replica is ready", func() bool {
		return !slices.ContainsFunc(r.Health(), func(c wire.Condition) bool { return !c.Ready })
	})
}

// call asks a replica.
func (o *office) call(replica int, method, path string, body any) (status int, answer map[string]any) {
	o.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.urls[replica]+path, bytes.NewReader(text))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if o.token != "" {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := json.Unmarshal(all, &answer); err != nil {
		o.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, all)
	}
	return res.StatusCode, answer
}

func (o *office) enqueue(n jobs.NewTask) string {
	o.t.Helper()
	got, err := o.store.Enqueue(o.t.Context(), n)
	if err != nil {
		o.t.Fatal(err)
	}
	return got[0].ID
}

// claimed is a task that a worker has.
type claimed struct {
	session string
	id      string
	token   float64
	all     map[string]any
}

func (c claimed) body(more map[string]any) map[string]any {
	all := map[string]any{"session": c.session, "token": c.token}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// claim claims and returns what came; a session of "" opens one.
func (o *office) claim(replica int, pool, session string, more map[string]any) (string, []claimed) {
	o.t.Helper()
	body := map[string]any{"wait": "20s"}
	if session != "" {
		body["session"] = session
	}
	for key, value := range more {
		body[key] = value
	}
	status, answer := o.call(replica, "POST", "pools/"+pool+"/claim", body)
	if status != 200 {
		o.t.Fatalf("claim in %s: %d %v", pool, status, answer)
	}
	session = answer["session"].(string)
	var tasks []claimed
	for _, item := range answer["items"].([]any) {
		task := item.(map[string]any)
		tasks = append(tasks, claimed{session, task["id"].(string), task["token"].(float64), task})
	}
	return session, tasks
}

func (o *office) one(pool string) claimed {
	o.t.Helper()
	_, tasks := o.claim(0, pool, "", nil)
	if len(tasks) != 1 {
		o.t.Fatalf("claimed %+v", tasks)
	}
	return tasks[0]
}

// end ends an attempt, and requires a status and a code.
func (o *office) end(c claimed, how string, more map[string]any, status int, code string) map[string]any {
	o.t.Helper()
	got, answer := o.call(len(o.urls)-1, "POST", "tasks/"+c.id+"/"+how, c.body(more))
	said := ""
	if refusal, is := answer["error"].(map[string]any); is && got != 200 {
		said = refusal["code"].(string)
	}
	if got != status || said != code {
		o.t.Errorf("%s: %d %v, want %d %s", how, got, answer, status, code)
	}
	return answer
}

func (o *office) state(id string) string {
	o.t.Helper()
	task, attempts, err := o.store.Task(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s attempt %d of %d", task.State, task.ReasonCode, task.Attempt, len(attempts)+1)
}

// A worker gets all that an attempt needs, and ends it by another replica than the one that gave it out. A repeated end is none.
func TestAWorkersTask(t *testing.T) {
	o := openOffice(t, 2, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail", Payload: map[string]int{"n": 7}, Timeout: time.Hour})
	c := o.one("mail")
	deadline, err := time.Parse(time.RFC3339Nano, c.all["deadline"].(string))
	started, err2 := time.Parse(time.RFC3339Nano, c.all["started_at"].(string))
	if err != nil || err2 != nil || c.id != id || c.token != 1 || c.all["attempt"] != 1.0 || c.all["max_attempts"] != 3.0 || c.all["idempotency_key"] != "prod/"+id ||
		fmt.Sprint(c.all["payload"]) != "map[n:7]" || deadline.Sub(started) != time.Hour || c.all["state"] != "running" || !strings.HasPrefix(c.all["replica"].(string), "worker-") {
		t.Errorf("claimed %+v", c.all)
	}
	beat := o.end(c, "heartbeat", nil, 200, "")
	if beat["cancel"] != false || beat["deadline"] != c.all["deadline"] {
		t.Errorf("heartbeat %v", beat)
	}
	o.end(c, "heartbeat", map[string]any{"progress": 50}, 422, "invalid")
	o.end(c, "heartbeat", map[string]any{"progress": -0.1}, 422, "invalid")
	alone := c
	if alone.session = ""; !strings.Contains(fmt.Sprint(o.end(alone, "heartbeat", nil, 422, "invalid")), "sends no heartbeats") {
		t.Error("a heartbeat without a session is not told whose it may be")
	}
	done := o.end(c, "complete", map[string]any{"output": "sent"}, 200, "")
	if done["state"] != "succeeded" || done["id"] != id {
		t.Errorf("completed %v", done)
	}
	if again := o.end(c, "complete", nil, 200, ""); again["state"] != "succeeded" {
		t.Errorf("completed again %v", again)
	}
	o.end(c, "fail", nil, 409, "attempt_ended")
	o.end(c, "heartbeat", nil, 409, "stale_token")
	if out, err := o.store.Sides().API.Output(t.Context(), id, 1); err != nil || string(out) != "sent" {
		t.Errorf("output %q, %v", out, err)
	}
	if got := o.state(id); got != "succeeded  attempt 1 of 1" {
		t.Error(got)
	}
}

// What a worker says under another token than the one it was given changes nothing, whatever it says.
func TestAStaleTokenOfAWorker(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	before := o.state(id)
	for _, other := range []float64{c.token + 1, 77} {
		stale := c
		stale.token = other
		for _, how := range []string{"heartbeat", "complete", "fail", "snooze"} {
			more := map[string]any{}
			if how == "snooze" {
				more["delay"] = "0s"
			}
			o.end(stale, how, more, 409, "stale_token")
		}
	}
	if got := o.state(id); got != before || before != "running  attempt 1 of 1" {
		t.Errorf("%s, before %s", got, before)
	}
	// Another session does not end it, either.
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	other := c
	other.session = session
	o.end(other, "complete", nil, 409, "stale_token")
	// After a retry the token of the first attempt is stale.
	o.end(c, "fail", map[string]any{"error": "no luck", "retry_after": "0s"}, 200, "")
	again := o.one("mail")
	if again.id != id || again.token != c.token+1 || again.all["attempt"] != 2.0 {
		t.Fatalf("claimed again %+v", again.all)
	}
	o.end(c, "complete", nil, 409, "stale_token")
	if failed := o.end(c, "fail", map[string]any{"error": "no luck", "retry_after": "0s"}, 200, ""); failed["attempt"] != 2.0 { // the same as before
		t.Errorf("said again: %v", failed)
	}
	o.end(again, "complete", nil, 200, "")
}

// The ways in which an attempt ends.
func TestHowWorkersEndAttempts(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	next := func() claimed { o.t.Helper(); o.enqueue(jobs.NewTask{Pool: "mail"}); return o.one("mail") }
	want := func(c claimed, state string) {
		t.Helper()
		if got := o.state(c.id); got != state {
			t.Errorf("it is %s, want %s", got, state)
		}
	}
	c := next()
	o.end(c, "fail", map[string]any{"error": "bad address", "retry": false}, 200, "")
	want(c, "failed error attempt 1 of 1")
	o.end(c, "fail", map[string]any{"error": "bad address", "retry": false}, 200, "")
	c = next()
	if got := o.end(c, "fail", map[string]any{"error": "later", "retry_after": "1h"}, 200, ""); got["state"] != "pending" {
		t.Errorf("to be retried: %v", got)
	}
	want(c, "pending error attempt 1 of 2")
	if task, _, _ := o.store.Task(t.Context(), c.id); time.Until(task.RunAt) < 59*time.Minute || task.Error != "later" {
		t.Errorf("it is due at %v, %q", task.RunAt, task.Error)
	}
	c = next()
	o.end(c, "snooze", map[string]any{"delay": "1h", "reason": "no file yet"}, 200, "")
	o.end(c, "snooze", map[string]any{"delay": "1h", "reason": "no file yet"}, 200, "")
	want(c, "pending snoozed attempt 0 of 1")
	c = next() // to hand back is to snooze for no time
	o.end(c, "snooze", map[string]any{"delay": "0s"}, 200, "")
	if again := o.one("mail"); again.id != c.id || again.all["attempt"] != 1.0 || again.token != c.token+1 {
		t.Errorf("handed back, and claimed again as %+v", again.all)
	}
	for n := 1.0; n <= 3; n++ {
		if n == 1 {
			c = next()
		} else {
			c = o.one("mail")
		}
		if c.all["attempt"] != n {
			t.Errorf("attempt %v is %v", n, c.all["attempt"])
		}
		o.end(c, "fail", map[string]any{"error": "no luck"}, 200, "")
	}
	want(c, "failed error attempt 3 of 3")
	c = next()
	if _, err := o.store.Cancel(t.Context(), c.id, "me"); err != nil {
		t.Fatal(err)
	}
	if beat := o.end(c, "heartbeat", nil, 200, ""); beat["cancel"] != true || !strings.Contains(beat["reason"].(string), "me") {
		t.Errorf("heartbeat of a cancelled one: %v", beat)
	}
	o.end(c, "fail", map[string]any{"error": "stopped"}, 200, "")
	want(c, "cancelled cancelled attempt 1 of 1")
	o.end(c, "fail", map[string]any{"error": "stopped"}, 200, "")
}

// An attempt ends at its deadline, whatever its worker does, and the worker is told.
func TestAWorkersDeadline(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "short"})
	c := o.one("short")
	await.Until(t, "the heartbeat is refused", func() bool {
		status, answer := o.call(0, "POST", "tasks/"+id+"/heartbeat", c.body(nil))
		code := ""
		if status != 200 {
			code = answer["error"].(map[string]any)["code"].(string)
		}
		return status == 409 && (code == "timed_out" || code == "stale_token")
	})
	status, answer := o.call(0, "POST", "tasks/"+id+"/complete", c.body(nil))
	if code := answer["error"].(map[string]any)["code"]; status != 409 || code != "timed_out" && code != "attempt_ended" {
		t.Errorf("completed beyond the deadline: %d %v", status, answer)
	}
	await.Until(t, "the attempt is ended", func() bool { return o.state(id) == "failed timeout attempt 1 of 1" })
	o.end(c, "complete", nil, 409, "attempt_ended")
}

// A claim waits until there is something, and no longer.
func TestAWaitingClaim(t *testing.T) {
	o := openOffice(t, 2, 10*time.Second, api.Options{})
	session, tasks := o.claim(1, "mail", "", map[string]any{"wait": "0s"})
	if len(tasks) > 0 {
		t.Fatalf("claimed %+v", tasks)
	}
	got := make(chan []claimed, 1)
	began := time.Now()
	go func() { _, tasks := o.claim(1, "mail", session, map[string]any{"max": 5}); got <- tasks }()
	select {
	case tasks := <-got:
		t.Fatalf("it did not wait: %+v", tasks)
	case <-time.After(300 * time.Millisecond):
	}
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	if tasks := <-got; len(tasks) != 1 || tasks[0].id != id || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), tasks)
	}
	began = time.Now()
	if _, tasks := o.claim(1, "mail", session, map[string]any{"wait": "1s"}); len(tasks) > 0 || time.Since(began) < time.Second || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), tasks)
	}
	// A place that an end frees in a pool with limits is for what waits.
	for range 2 {
		o.enqueue(jobs.NewTask{Pool: "one"})
	}
	first := o.one("one")
	go func() { _, tasks := o.claim(0, "one", "", nil); got <- tasks }()
	select {
	case tasks := <-got:
		t.Fatalf("beyond max_running: %+v", tasks)
	case <-time.After(300 * time.Millisecond):
	}
	o.end(first, "complete", nil, 200, "")
	if tasks := <-got; len(tasks) != 1 || tasks[0].id == first.id {
		t.Errorf("after the end of the first: %+v", tasks)
	}
}

// A waiting claim ends when its replica stops, with nothing, and another replica serves the session.
func TestAWaitingClaimEndsWithItsReplica(t *testing.T) {
	o := openOffice(t, 2, 10*time.Second, api.Options{})
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	got := make(chan []claimed, 1)
	go func() { _, tasks := o.claim(0, "mail", session, map[string]any{"wait": "60s"}); got <- tasks }()
	time.Sleep(100 * time.Millisecond) // most likely it waits by now
	began := time.Now()
	o.stops[0]()
	if tasks := <-got; len(tasks) > 0 || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), tasks)
	}
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	if _, tasks := o.claim(1, "mail", session, nil); len(tasks) != 1 || tasks[0].id != id {
		t.Errorf("by the other replica: %+v", tasks)
	}
}

// Tasks of an answer that the worker did not get come again, with the same token, to a worker that says what it has.
func TestALostAnswerToAClaim(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	first, second := o.enqueue(jobs.NewTask{Pool: "mail"}), o.enqueue(jobs.NewTask{Pool: "mail"})
	third := o.enqueue(jobs.NewTask{Pool: "mail"})
	_, lost := o.claim(0, "mail", session, map[string]any{"max": 2})
	if _, again := o.claim(0, "mail", session, map[string]any{"max": 2, "have": []string{second}}); len(again) != 1 || again[0].id != first || again[0].token != lost[0].token {
		t.Errorf("again: %+v", again)
	}
	if _, more := o.claim(0, "mail", session, map[string]any{"max": 2, "have": []string{first, second}}); len(more) != 1 || more[0].id != third {
		t.Errorf("beside both: %+v", more)
	}
	if _, again := o.claim(0, "mail", session, map[string]any{"have": []string{}}); len(again) != 3 {
		t.Errorf("all: %+v", again)
	}
}

// A task whose claim had no answer, and that is cancelled then, runs nowhere: it ends when the worker says what it has.
func TestACancelledTaskOfALostAnswer(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	o.claim(0, "mail", session, nil)
	if _, err := o.store.Cancel(t.Context(), id, "bob"); err != nil {
		t.Fatal(err)
	}
	if _, again := o.claim(0, "mail", session, map[string]any{"have": []string{id}, "wait": "0s"}); len(again) != 0 || !strings.HasPrefix(o.state(id), "running") {
		t.Errorf("%+v, %s: the worker has it", again, o.state(id))
	}
	if _, again := o.claim(0, "mail", session, map[string]any{"have": []string{}, "wait": "0s"}); len(again) != 0 || !strings.HasPrefix(o.state(id), "cancelled") {
		t.Errorf("%+v, %s: nobody has it", again, o.state(id))
	}
}

// A session ends nothing that it never had, and learns nothing of it, though tokens are small numbers.
func TestAWorkerEndsNothingOfOthers(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	session, _ := o.claim(0, "mail", "", map[string]any{"wait": "0s"})
	for _, pool := range []string{"one", "mail"} {
		id := o.enqueue(jobs.NewTask{Pool: pool})
		other := o.one(pool)
		mine := other
		mine.session = session
		for _, when := range []string{"it runs", "it has ended"} {
			before := o.state(id)
			for _, how := range []string{"heartbeat", "complete", "fail", "snooze"} {
				more := map[string]any{}
				if how == "snooze" {
					more["delay"] = "0s"
				}
				o.end(mine, how, more, 409, "stale_token")
			}
			if got := o.state(id); got != before {
				t.Errorf("%s: %s, before %s", when, got, before)
			}
			o.end(other, "complete", nil, 200, "")
		}
	}
}

// A worker that is silent for the ttl has expired: its task runs again, with a larger token, and what it says then is refused. Its calls
// keep a session, also while a claim waits for longer than the ttl.
func TestAWorkerIsSilent(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	o := openOffice(t, 2, ttl, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	began := time.Now()
	_, tasks := o.claim(1, "mail", "", nil)
	if len(tasks) != 1 || tasks[0].id != id || tasks[0].token != c.token+1 || time.Since(began) < ttl/2 {
		t.Fatalf("after %v: %+v", time.Since(began), tasks)
	}
	if _, attempts, _ := o.store.Task(t.Context(), id); len(attempts) != 1 || attempts[0].State != jobs.StateLost {
		t.Errorf("attempts %+v", attempts)
	}
	o.end(c, "heartbeat", nil, 409, "session_expired")
	o.end(c, "complete", nil, 409, "stale_token")
	status, answer := o.call(0, "POST", "pools/mail/claim", map[string]any{"session": c.session, "wait": "0s"})
	if status != 409 || answer["error"].(map[string]any)["code"] != "session_expired" {
		t.Errorf("a claim of the expired session: %d %v", status, answer)
	}
	session := tasks[0].session
	if _, none := o.claim(0, "mail", session, map[string]any{"wait": "4s"}); len(none) > 0 {
		t.Errorf("claimed %+v", none)
	}
	o.end(tasks[0], "complete", nil, 200, "")
}

// A worker that leaves has what it runs ended as a drain ends it.
func TestAWorkerLeaves(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	if status, answer := o.call(0, "DELETE", "workers/"+c.session, map[string]any{}); status != 200 || answer["stopped"] != 1.0 {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := o.call(0, "DELETE", "workers/"+c.session, map[string]any{}); status != 200 || answer["stopped"] != 0.0 {
		t.Errorf("again: %d %v", status, answer)
	}
	again := o.one("mail")
	if _, attempts, _ := o.store.Task(t.Context(), id); again.id != id || len(attempts) != 1 || attempts[0].State != jobs.StateLost || attempts[0].ReasonCode != "drained" {
		t.Errorf("claimed %+v after %+v", again.all, attempts)
	}
	if status, answer := o.call(0, "DELETE", "workers/"+strings.Repeat("0", 36), map[string]any{}); status != 404 {
		t.Errorf("no session: %d %v", status, answer)
	}
}

// A job's runs go to workers by its pool; a replica runs what is not for them, and takes nothing that is.
func TestWhatIsForWorkers(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	status, answer := o.call(0, "POST", "jobs/letter/run", map[string]any{})
	if status != 201 && status != 200 {
		t.Fatalf("%d %v", status, answer)
	}
	id := answer["task"].(map[string]any)["id"].(string)
	if _, got := o.call(0, "GET", "tasks/"+id+"/why", nil); !strings.Contains(fmt.Sprint(got["causes"]), "no_worker") {
		t.Errorf("no worker lives, and why says %v", got)
	}
	if _, got := o.call(0, "GET", "tasks/"+id, nil); got["reason_code"] != "no_worker" {
		t.Errorf("no worker lives, and the task says %v", got)
	}
	c := o.one("mail")
	if c.all["job"] != "letter" || fmt.Sprint(c.all["payload"]) != "map[to:world]" {
		t.Errorf("claimed %+v", c.all)
	}
	o.end(c, "complete", nil, 200, "")
	if got := o.state(c.id); got != "succeeded  attempt 1 of 1" {
		t.Error(got)
	}
	own, pdf, fax := o.enqueue(jobs.NewTask{Pool: "mixed"}), o.enqueue(jobs.NewTask{Pool: "mixed", Kind: "pdf"}), o.enqueue(jobs.NewTask{Pool: "mixed", Kind: "fax"})
	await.Until(t, "the replica has run its own", func() bool { return o.state(own) == "succeeded  attempt 1 of 1" })
	session, tasks := o.claim(0, "mixed", "", map[string]any{"kinds": []string{"fax"}, "max": 9})
	if len(tasks) != 1 || tasks[0].id != fax {
		t.Errorf("claimed %+v", tasks)
	}
	if _, tasks := o.claim(0, "mixed", session, map[string]any{"wait": "0s", "max": 9}); len(tasks) > 0 {
		t.Errorf("claimed of another kind %+v", tasks)
	}
	if _, list := o.call(0, "GET", "tasks/"+pdf, nil); list["reason_code"] != "no_worker" {
		t.Errorf("nobody takes it: %v", list)
	}
	_, list := o.call(0, "GET", "workers", nil)
	items := list["items"].([]any)
	if len(items) != 2 || items[1].(map[string]any)["pool"] != "mixed" && items[0].(map[string]any)["pool"] != "mixed" {
		t.Errorf("workers %v", list)
	}
	for _, item := range items {
		w := item.(map[string]any)
		running, task := 0.0, any(nil)
		if w["pool"] == "mixed" {
			running, task = 1, fax
		}
		if w["running"] != running || w["task_id"] != task {
			t.Errorf("a worker with its tasks: %v", w)
		}
	}
	if _, list := o.call(0, "GET", "replicas", nil); len(list["items"].([]any)) != 1 {
		t.Errorf("replicas %v", list)
	}
}

// What is wrong in a call is said with the key, and never a failure of the server.
func TestBadCallsOfWorkers(t *testing.T) {
	o := openOffice(t, 1, 10*time.Second, api.Options{})
	o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	on := func(more map[string]any) map[string]any { return c.body(more) }
	for _, bad := range []struct {
		path   string
		body   map[string]any
		status int
		field  string
	}{
		{"pools/nowhere/claim", map[string]any{}, 404, ""},
		{"pools/default/claim", map[string]any{}, 422, "pool"},
		{"pools/mixed/claim", map[string]any{}, 422, "kinds[0]"},
		{"pools/mixed/claim", map[string]any{"kinds": []string{"pdf", "pfd"}}, 422, "kinds[1]"},
		{"pools/mail/claim", map[string]any{"kinds": []string{}}, 422, "kinds"},
		{"pools/mail/claim", map[string]any{"kinds": "pdf"}, 400, "kinds"},
		{"pools/mail/claim", map[string]any{"max": 0}, 422, "max"},
		{"pools/mail/claim", map[string]any{"max": 101}, 422, "max"},
		{"pools/mail/claim", map[string]any{"wait": "61s"}, 422, "wait"},
		{"pools/mail/claim", map[string]any{"wait": "soon"}, 400, "wait"},
		{"pools/mail/claim", map[string]any{"wait": "-1s"}, 400, "wait"},
		{"pools/mail/claim", map[string]any{"name": "two words"}, 422, "name"},
		{"pools/mail/claim", map[string]any{"session": "no such/thing"}, 422, "session"},
		{"pools/mail/claim", map[string]any{"session": strings.Repeat("0", 36)}, 404, ""},
		{"pools/one/claim", map[string]any{"session": c.session}, 422, "session"},
		{"pools/mail/claim", map[string]any{"session": c.session, "kinds": []string{"x"}}, 422, "kinds"},
		{"pools/mail/claim", map[string]any{"colour": 1}, 400, "colour"},
		{"tasks/" + c.id + "/complete", map[string]any{}, 422, "token"},
		{"tasks/" + c.id + "/complete", map[string]any{"token": c.token}, 422, "session"},
		{"tasks/" + c.id + "/heartbeat", map[string]any{"token": c.token}, 422, "session"},
		{"tasks/" + c.id + "/complete", map[string]any{"session": c.session}, 422, "token"},
		{"tasks/" + c.id + "/complete", map[string]any{"session": strings.Repeat("0", 36), "token": 1}, 404, ""},
		{"tasks/" + c.id + "/complete", on(map[string]any{"token": "1"}), 400, "token"},
		{"tasks/" + c.id + "/complete", on(map[string]any{"error": "x"}), 400, "error"},
		{"tasks/" + c.id + "/fail", on(map[string]any{"retry_after": "1"}), 400, "retry_after"},
		{"tasks/" + c.id + "/fail", on(map[string]any{"retry_after": "1s", "retry": false}), 422, "retry_after"},
		{"tasks/" + c.id + "/snooze", on(nil), 422, "delay"},
		{"tasks/" + c.id + "/snooze", on(map[string]any{"delay": "-1s"}), 400, "delay"},
		{"tasks/nothing/complete", on(nil), 409, ""},
	} {
		status, answer := o.call(0, "POST", bad.path, bad.body)
		field := ""
		if refusal, is := answer["error"].(map[string]any); is {
			field, _ = refusal["field"].(string)
		}
		if status != bad.status || field != bad.field {
			t.Errorf("%s %v: %d %v, want %d for %s", bad.path, bad.body, status, answer, bad.status, bad.field)
		}
	}
	if got := o.state(c.id); got != "running  attempt 1 of 1" {
		t.Error(got)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What a worker writes with its heartbeats is there while it runs, each byte once, and is its output if it ends without another.
func TestAWorkerWrites(t *testing.T) {
	o := openOffice(t, 2, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	want := func(text string) {
		t.Helper()
		if got, err := o.store.Output(t.Context(), id, 0); string(got) != text || err != nil && text != "" {
			t.Errorf("the output is %.100q, want %.100q, %v", got, text, err)
		}
	}
	want("")
	o.end(c, "heartbeat", map[string]any{"output": "one ü\n", "output_at": 0}, 200, "")
	o.end(c, "heartbeat", map[string]any{"output": "one ü\n", "output_at": 0}, 200, "") // its answer was lost
	o.end(c, "heartbeat", map[string]any{"output": "two\n", "output_at": 7, "progress": 0.5}, 200, "")
	o.end(c, "heartbeat", map[string]any{"output": "", "output_at": 11}, 200, "")
	o.end(c, "heartbeat", nil, 200, "")
	want("one ü\ntwo\n")
	stale := c
	stale.token++
	o.end(stale, "heartbeat", map[string]any{"output": "stale", "output_at": 11}, 409, "stale_token")
	o.end(c, "heartbeat", map[string]any{"output": "where?"}, 422, "invalid")
	o.end(c, "heartbeat", map[string]any{"output": "where?", "output_at": -1}, 422, "invalid")
	o.end(c, "heartbeat", map[string]any{"output": "where?", "output_at": "0"}, 400, "malformed")
	o.end(c, "heartbeat", map[string]any{"output": 7, "output_at": 0}, 400, "malformed")
	o.end(c, "heartbeat", map[string]any{"output": strings.Repeat("x", 64<<10+1), "output_at": 11}, 422, "invalid")
	o.end(c, "heartbeat", map[string]any{"output": strings.Repeat("x", 64<<10), "output_at": 11}, 200, "")
	want("one ü\ntwo\n" + strings.Repeat("x", 64<<10))
	o.end(c, "complete", nil, 200, "")
	want("one ü\ntwo\n" + strings.Repeat("x", 64<<10))

	id = o.enqueue(jobs.NewTask{Pool: "mail"})
	c = o.one("mail")
	o.end(c, "heartbeat", map[string]any{"output": "so far", "output_at": 0}, 200, "")
	o.end(c, "complete", map[string]any{"output": "so far, and done"}, 200, "")
	want("so far, and done")

	id = o.enqueue(jobs.NewTask{Pool: "mail"})
	c = o.one("mail")
	o.end(c, "heartbeat", map[string]any{"output": "so far", "output_at": 0}, 200, "")
	if status, answer := o.call(0, "DELETE", "workers/"+c.session, map[string]any{}); status != 200 {
		t.Errorf("leaving: %d %v", status, answer)
	}
	want("so far")
}

// A worker's progress is shown while it runs, and its result once it has ended, under the rules of handlers.
func TestAWorkerReports(t *testing.T) {
	o := openOffice(t, 2, 10*time.Second, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := o.one("mail")
	show := func() jobs.Task {
		task, _, err := o.store.Sides().API.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	o.end(c, "heartbeat", map[string]any{"progress": 0.4, "progress_text": "two\nof five"}, 200, "")
	if got := show(); got.ProgressDone == nil || *got.ProgressDone != 0.4 || got.ProgressText != "two of five" {
		t.Errorf("%v %q", got.ProgressDone, got.ProgressText)
	}
	o.end(c, "heartbeat", nil, 200, "")
	if got := show(); got.ProgressText != "two of five" {
		t.Errorf("a heartbeat without a progress has taken it back: %q", got.ProgressText)
	}
	o.end(c, "heartbeat", map[string]any{"progress_text": "of what?"}, 422, "invalid")
	o.end(c, "heartbeat", map[string]any{"progress": "half"}, 400, "malformed")
	o.end(c, "complete", map[string]any{"result": strings.Repeat("x", jobs.MaxResult)}, 422, "invalid")
	stale := c
	stale.token++
	o.end(stale, "heartbeat", map[string]any{"progress": 1}, 409, "stale_token")
	if got := show(); *got.ProgressDone != 0.4 {
		t.Errorf("another token has set the progress to %v", *got.ProgressDone)
	}
	o.end(c, "complete", map[string]any{"output": "sent", "result": map[string]int{"pages": 12}}, 200, "")
	result, err := o.store.Sides().API.Result(t.Context(), id)
	if got := show(); err != nil || string(result) != `{"pages":12}` || got.ProgressDone != nil {
		t.Errorf("result %s, %v; progress %v", result, err, got.ProgressDone)
	}
	failed := o.enqueue(jobs.NewTask{Pool: "mail"})
	o.end(o.one("mail"), "fail", map[string]any{"error": "no", "retry": false, "result": []int{1}}, 200, "")
	if result, err := o.store.Sides().API.Result(t.Context(), failed); err != nil || string(result) != "[1]" {
		t.Errorf("result of a failure %s, %v", result, err)
	}
}
