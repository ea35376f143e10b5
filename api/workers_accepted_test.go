//go:build !fuzz

package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// acceptance is a server that accepts what it is sent, and what it was sent.
func acceptance(t *testing.T, o api.Options) (*office, <-chan claimed) {
	t.Helper()
	return acceptanceFor(t, 2, 10*time.Second, o)
}

// acceptanceFor is acceptance with so many replicas, each with a session of this ttl.
func acceptanceFor(t *testing.T, replicas int, ttl time.Duration, o api.Options) (*office, <-chan claimed) {
	t.Helper()
	came := make(chan claimed, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strconv.ParseFloat(r.Header.Get("Lockstep-Fencing-Token"), 64)
		came <- claimed{id: r.Header.Get("Lockstep-Task-Id"), token: token}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "in the queue")
	}))
	t.Cleanup(server.Close)
	handler := func(r httphandler.Request) jobs.Handler {
		r.URL = server.URL
		h, err := httphandler.New(r)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	return openOffice(t, replicas, ttl, o, map[string]jobs.Pool{
		"web":    {Handler: handler(httphandler.Request{}), Retries: jobs.Retries{Limit: 1, Backoff: time.Millisecond}, Workers: 1},
		"brief":  {Handler: handler(httphandler.Request{}), Timeout: time.Second, Retries: jobs.Retries{Limit: jobs.NoRetries}},
		"as-was": {Handler: handler(httphandler.Request{ExpectStatus: []int{202}})},
	}), came
}

// said ends an attempt without a session.
func (o *office) said(c claimed, how string, more map[string]any) (int, map[string]any) {
	o.t.Helper()
	body := c.body(more)
	delete(body, "session")
	return o.call(1, "POST", "tasks/"+c.id+"/"+how, body)
}

// An attempt that a server has accepted lasts until it says how it ended, to any replica, or until its timeout. Its replica learns of it:
// the next task of the pool, which has one worker in each replica, starts.
func TestAnAcceptedRequest(t *testing.T) {
	o, came := acceptance(t, api.Options{})
	var ids []string
	for range 3 {
		ids = append(ids, o.enqueue(jobs.NewTask{Pool: "web"}))
	}
	first, second := <-came, <-came
	select {
	case third := <-came:
		t.Fatalf("%v did not last", third)
	case <-time.After(300 * time.Millisecond):
	}
	if got := o.state(first.id); got != "running  attempt 1 of 1" {
		t.Error(got)
	}
	stale := first
	stale.token++
	if status, answer := o.said(stale, "complete", nil); status != 409 || answer["error"].(map[string]any)["code"] != "stale_token" {
		t.Errorf("under another token: %d %v", status, answer)
	}
	for range 2 {
		if status, answer := o.said(first, "complete", map[string]any{"output": "done"}); status != 200 || answer["state"] != "succeeded" {
			t.Errorf("completed: %d %v", status, answer)
		}
	}
	third := <-came
	if got := o.state(first.id); got != "succeeded  attempt 1 of 1" {
		t.Error(got)
	}
	if status, answer := o.said(second, "fail", map[string]any{"error": "no paper", "retry_after": "0s"}); status != 200 || answer["state"] != "pending" {
		t.Errorf("failed: %d %v", status, answer)
	}
	again := <-came
	if again.id != second.id || again.token != second.token+1 {
		t.Errorf("again came %+v", again)
	}
	if status, _ := o.said(again, "fail", map[string]any{"error": "no ink", "retry": false}); status != 200 {
		t.Errorf("failed: %d", status)
	}
	if status, _ := o.said(third, "complete", nil); status != 200 {
		t.Errorf("completed: %d", status)
	}
	if got := o.state(second.id); got != "failed error attempt 2 of 2" {
		t.Error(got)
	}
	if task, _, _ := o.store.Task(t.Context(), second.id); task.Error != "no ink" {
		t.Errorf("the error is %q", task.Error)
	}
	_ = ids
}

// Without a word it ends at its timeout; and a file that expects 202 says that this is the end.
func TestAnAcceptedRequestWithoutAWord(t *testing.T) {
	o, came := acceptance(t, api.Options{})
	id := o.enqueue(jobs.NewTask{Pool: "brief"})
	c := <-came
	await.Until(t, "it has timed out", func() bool { return o.state(id) == "failed timeout attempt 1 of 1" })
	if status, answer := o.said(c, "complete", nil); status != 409 || answer["error"].(map[string]any)["code"] != "attempt_ended" {
		t.Errorf("after that: %d %v", status, answer)
	}
	id = o.enqueue(jobs.NewTask{Pool: "as-was"})
	await.Until(t, "it has succeeded", func() bool { return o.state(id) == "succeeded  attempt 1 of 1" })
}

// A token of a worker ends what was accepted in its pools, and nothing that no server has accepted.
func TestWhoEndsAnAcceptedRequest(t *testing.T) {
	secret, token := api.NewToken("web", api.Worker, time.Time{})
	token.Pools = []string{"web", "mail"}
	other, elsewhere := api.NewToken("mailer", api.Worker, time.Time{})
	elsewhere.Pools = []string{"mail"}
	o, came := acceptance(t, api.Options{Access: api.NewTokens(token, elsewhere)})
	o.enqueue(jobs.NewTask{Pool: "web"})
	c := <-came
	o.token = other
	if status, answer := o.said(c, "complete", nil); status != 404 {
		t.Errorf("with a token of another pool: %d %v", status, answer)
	}
	o.enqueue(jobs.NewTask{Pool: "mail"})
	mine := o.one("mail")
	o.token = secret
	if status, answer := o.said(mine, "complete", nil); status != 422 || answer["error"].(map[string]any)["field"] != "session" {
		t.Errorf("a worker's task without its session: %d %v", status, answer)
	}
	if got := o.state(mine.id); got != "running  attempt 1 of 1" {
		t.Error(got)
	}
	if status, answer := o.said(c, "complete", nil); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
}

// run runs a job, and returns what the server got.
func (o *office) run(job string, came <-chan claimed) claimed {
	o.t.Helper()
	if status, answer := o.call(0, "POST", "jobs/"+job+"/run", map[string]any{}); status != 200 && status != 201 {
		o.t.Fatalf("run: %d %v", status, answer)
	}
	return <-came
}

// A replica loses its session, and takes another one: the attempt that a server had accepted is lost, and goes on in its slot until the
// server says how it ended. That replaces the loss.
func TestAnAcceptedRequestOfALostSession(t *testing.T) {
	o, came := acceptanceFor(t, 0, 0, api.Options{})
	slow := o.pools["web"]
	o.pools["slow"] = slow
	o.jobs = map[string]jobs.Job{"sync": {Pool: "slow", OnLost: jobs.LostFails, Timeout: time.Hour}}
	o.open("replica-0", 3*time.Second, api.Options{})
	c := o.run("sync", came)
	other := o.enqueue(jobs.NewTask{Pool: "slow"}) // the pool has one worker in the replica
	replica := o.store.Sides().Replica
	peers, err := replica.Peers(t.Context())
	if err != nil || len(peers) != 1 {
		t.Fatalf("%+v, %v", peers, err)
	}
	if err := replica.Leave(t.Context(), peers[0].Session); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the attempt is lost", func() bool { return strings.HasPrefix(o.state(c.id), "lost ") })
	// The replica finds under its next session that another attempt was ended: it has looked at its rows since.
	for range 2 {
		id := o.enqueue(jobs.NewTask{Pool: "web"})
		next := <-came
		if next.id != id {
			t.Fatalf("%v was sent while the lost attempt has the worker of its pool", next)
		}
		if status, answer := o.said0(next, "complete"); status != 200 {
			t.Fatalf("%d %v", status, answer)
		}
	}
	o.enqueue(jobs.NewTask{Pool: "web"})
	last := <-came
	if last.id == other {
		t.Fatal("the lost attempt has not gone on")
	}
	if got := o.state(other); got != "pending  attempt 0 of 1" {
		t.Errorf("the task behind it: %s", got)
	}
	if status, answer := o.said0(c, "complete"); status != 200 || answer["state"] != "succeeded" {
		t.Errorf("completed: %d %v", status, answer)
	}
	next := <-came
	if next.id != other {
		t.Errorf("%v was sent after it, want %s", next, other)
	}
	for _, left := range []claimed{last, next} { // a drain would wait for them
		if status, answer := o.said0(left, "complete"); status != 200 {
			t.Errorf("%d %v", status, answer)
		}
	}
	if got := o.state(c.id); got != "succeeded late attempt 1 of 1" {
		t.Error(got)
	}
}

// said0 is said at the first replica.
func (o *office) said0(c claimed, how string) (int, map[string]any) {
	o.t.Helper()
	return o.call(0, "POST", "tasks/"+c.id+"/"+how, map[string]any{"token": c.token})
}

// The newest file does not have the job any more: once its attempt is lost, what the server says is recorded, by any replica, and refused under
// another token.
func TestAnAcceptedRequestOfARemovedJob(t *testing.T) {
	o, came := acceptanceFor(t, 0, 0, api.Options{})
	o.jobs = map[string]jobs.Job{"sync": {Pool: "web", OnLost: jobs.LostFails, Timeout: time.Hour}}
	o.open("replica-0", 3*time.Second, api.Options{})
	c := o.run("sync", came)
	o.jobs = nil
	o.open("replica-1", 3*time.Second, api.Options{})
	replica := o.store.Sides().Replica
	peers, err := replica.Peers(t.Context())
	if err != nil || len(peers) != 2 {
		t.Fatalf("%+v, %v", peers, err)
	}
	for _, p := range peers {
		if p.Replica == "replica-0" {
			err = replica.Leave(t.Context(), p.Session)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the attempt is lost", func() bool { return strings.HasPrefix(o.state(c.id), "lost ") })
	other := c
	other.token++
	await.Until(t, "another token is refused for good", func() bool {
		status, answer := o.said(other, "complete", nil)
		return status == 409 && answer["error"].(map[string]any)["code"] == "stale_token"
	})
	for range 2 {
		if status, answer := o.said(c, "complete", nil); status != 200 || answer["state"] != "succeeded" {
			t.Errorf("completed: %d %v", status, answer)
		}
	}
	if got := o.state(c.id); got != "succeeded late attempt 1 of 1" {
		t.Error(got)
	}
}

// A replica whose file does not have the job cannot tell whether a server may end its running attempt: it says 503, and another one ends it.
func TestAnAcceptedRequestOfAnUnknownJob(t *testing.T) {
	o, came := acceptanceFor(t, 0, 0, api.Options{})
	o.jobs = map[string]jobs.Job{"sync": {Pool: "web", Timeout: time.Hour}}
	o.open("replica-0", 10*time.Second, api.Options{})
	c := o.run("sync", came)
	o.jobs = nil
	o.open("replica-1", 10*time.Second, api.Options{})
	for _, how := range []string{"complete", "fail"} {
		if status, answer := o.said(c, how, nil); status != 503 {
			t.Errorf("%s at a replica that does not have the job: %d %v", how, status, answer)
		}
	}
	if got := o.state(c.id); got != "running  attempt 1 of 1" {
		t.Error(got)
	}
	if status, answer := o.said0(c, "complete"); status != 200 || answer["state"] != "succeeded" {
		t.Errorf("%d %v", status, answer)
	}
}
