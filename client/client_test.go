package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// server sends the same response to each request, and records the requests.
func server(t *testing.T, status int, contentType, body string) (*Client, *[]string) {
	t.Helper()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), string(sent)}, " ")))
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	c, err := New(srv.URL+"/below/", Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

// TestRequests: each method sends one request, the right one; any name stays one segment of the path.
func TestRequests(t *testing.T) {
	c, asked := server(t, http.StatusOK, "application/json", `{}`)
	ctx := t.Context()
	since := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	calls := []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := c.Jobs(ctx, wire.Page{Limit: 5, Cursor: "a+b"}); return err }, "GET /below/api/v1/jobs?cursor=a%2Bb&limit=5  Bearer secret"},
		{func() error { _, err := c.Job(ctx, "a/../b%?x"); return err }, "GET /below/api/v1/jobs/a%2F..%2Fb%25%3Fx  Bearer secret"},
		{func() error { _, err := c.Why(ctx, "task-1"); return err }, "GET /below/api/v1/tasks/task-1/why  Bearer secret"},
		{func() error { _, err := c.Next(ctx, "backup", 3); return err }, "GET /below/api/v1/jobs/backup/next?n=3  Bearer secret"},
		{func() error { _, err := c.NextDue(ctx, since, 3); return err }, "GET /below/api/v1/next?limit=3&until=2026-01-02T02%3A04%3A05.000006Z  Bearer secret"},
		{func() error { _, err := c.NextDue(ctx, time.Time{}, 3); return err }, "GET /below/api/v1/next?limit=3  Bearer secret"},
		{func() error { _, err := c.RunJob(ctx, "backup"); return err }, "POST /below/api/v1/jobs/backup/run  Bearer secret"},
		{func() error {
			_, err := c.RunJobWith(ctx, "backup", jobs.NewRun{Payload: map[string]int{"n": 1}, By: "not sent"})
			return err
		}, `POST /below/api/v1/jobs/backup/run application/json Bearer secret {"payload":{"n":1}}`},
		{func() error { _, err := c.ForceRunJob(ctx, "backup", "task-1"); return err }, `POST /below/api/v1/jobs/backup/run application/json Bearer secret {"force":"task-1"}`},
		{func() error { _, err := c.ForceRunJob(ctx, "backup", ""); return err }, `POST /below/api/v1/jobs/backup/run application/json Bearer secret {"force":true}`},
		{func() error { _, err := c.ForceRunJob(ctx, "backup", "true"); return err }, `POST /below/api/v1/jobs/backup/run application/json Bearer secret {"force":"true"}`}, // no word is special
		{func() error { _, err := c.SuspendJob(ctx, "backup"); return err }, "POST /below/api/v1/jobs/backup/suspend application/json Bearer secret {}"},
		{func() error { _, err := c.SuspendJobUntil(ctx, "backup", since.UTC()); return err }, `POST /below/api/v1/jobs/backup/suspend application/json Bearer secret {"until":"2026-01-02T02:04:05.000006Z"}`},
		{func() error {
			_, err := c.SuspendJobs(ctx, wire.ResumeJobs, wire.SuspendMany{Labels: map[string]string{"team": "infra"}, DryRun: true})
			return err
		}, `POST /below/api/v1/resume/jobs application/json Bearer secret {"labels":{"team":"infra"},"dry_run":true}`},
		{func() error { _, err := c.RunJobAt(ctx, "backup", jobs.NewRun{Payload: 1}, since.UTC()); return err }, `POST /below/api/v1/jobs/backup/run application/json Bearer secret {"payload":1,"at":"2026-01-02T02:04:05.000006Z"}`},
		{func() error {
			_, err := c.PreviewBackfill(ctx, "backup", wire.NewBackfill{From: since.UTC(), To: since.UTC()})
			return err
		}, `POST /below/api/v1/jobs/backup/backfill application/json Bearer secret {"from":"2026-01-02T02:04:05.000006Z","to":"2026-01-02T02:04:05.000006Z","preview":true}`},
		{func() error {
			_, err := c.Backfill(ctx, "backup", wire.NewBackfill{From: since.UTC(), To: since.UTC(), MaxRunning: 2, Rate: jobs.Rate{Count: 5, Per: time.Minute}, Again: true})
			return err
		}, `POST /below/api/v1/jobs/backup/backfill application/json Bearer secret {"from":"2026-01-02T02:04:05.000006Z","to":"2026-01-02T02:04:05.000006Z","max_running":2,"rate":"5/m","again":true}`},
		{func() error {
			_, err := c.Orders(ctx, wire.OrderFilter{Job: "backup", Kind: wire.OrderRun, State: wire.OrderOpen})
			return err
		}, "GET /below/api/v1/orders?job=backup&kind=run&state=open  Bearer secret"},
		{func() error { _, err := c.Order(ctx, "o1"); return err }, "GET /below/api/v1/orders/o1  Bearer secret"},
		{func() error { _, err := c.CancelOrder(ctx, "o1"); return err }, "POST /below/api/v1/orders/o1/cancel  Bearer secret"},
		{func() error { _, err := c.SkipNext(ctx, "backup", 0); return err }, `POST /below/api/v1/jobs/backup/skip-next application/json Bearer secret {"n":0}`},
		{func() error { _, err := c.ResumeJob(ctx, "backup"); return err }, "POST /below/api/v1/jobs/backup/resume application/json Bearer secret {}"},
		{func() error { _, err := c.ResetJob(ctx, "backup"); return err }, `POST /below/api/v1/jobs/backup/resume application/json Bearer secret {"reset":true}`},
		{func() error {
			_, err := c.Triggers(ctx, wire.TriggerFilter{Job: "j", Outcome: jobs.Ran, Result: jobs.StateFailed, Since: since})
			return err
		}, "GET /below/api/v1/triggers?job=j&outcome=ran&result=failed&since=2026-01-02T02%3A04%3A05.000006Z  Bearer secret"},
		{func() error {
			_, err := c.Tasks(ctx, wire.TaskFilter{Pool: "mail", State: jobs.StatePending})
			return err
		}, "GET /below/api/v1/tasks?pool=mail&state=pending  Bearer secret"},
		{func() error { _, err := c.Task(ctx, "id"); return err }, "GET /below/api/v1/tasks/id  Bearer secret"},
		{func() error { _, err := c.OutputNews(ctx, "id", "1.2.3.0", time.Second); return err }, "GET /below/api/v1/tasks/id/logs?follow=1.2.3.0&wait=1s  Bearer secret"},
		{func() error { _, err := c.Output(ctx, "id", 2); return err }, "GET /below/api/v1/tasks/id/logs?attempt=2  Bearer secret"},
		{func() error {
			_, err := c.Enqueue(ctx, jobs.NewTask{Pool: "mail", Payload: json.RawMessage(`{"n":1e400}`), Kind: "k", Key: "tenant-7", Priority: -3, IdempotencyKey: "i", Tags: []string{"t"}, RunAt: since.UTC(), ExpiresAt: since.UTC().Add(time.Second), MaxAttempts: 3, Timeout: 90 * time.Second, Backoff: time.Millisecond, Force: true}, jobs.NewTask{Pool: "mail", Unique: &jobs.Unique{By: []string{"key"}, For: 90 * time.Second, While: jobs.WhileOpen, OnConflict: jobs.ConflictRejects}})
			return err
		}, `POST /below/api/v1/pools/mail/tasks application/json Bearer secret [{"kind":"k","key":"tenant-7","payload":{"n":1e400},"run_at":"2026-01-02T02:04:05.000006Z","expires_at":"2026-01-02T02:04:06.000006Z","max_attempts":3,"priority":-3,"idempotency_key":"i","tags":["t"],"force":true,"timeout":"1m30s","backoff":"1ms"},{"unique":{"by":["key"],"for":"1m30s","while":"open","on_conflict":"reject"}}]`},
		{func() error { _, err := c.Cancel(ctx, "id"); return err }, "POST /below/api/v1/tasks/id/cancel  Bearer secret"},
		{func() error {
			_, err := c.UpdateTask(ctx, "id", wire.TaskChange{RunAt: new(since.UTC()), ExpiresAt: new(time.Time), Priority: new(0), Payload: json.RawMessage(`null`), Tags: &[]string{}})
			return err
		}, `PATCH /below/api/v1/tasks/id application/json Bearer secret {"run_at":"2026-01-02T02:04:05.000006Z","expires_at":"0001-01-01T00:00:00Z","priority":0,"payload":null,"tags":[]}`},
		{func() error { _, err := c.Retry(ctx, "id"); return err }, "POST /below/api/v1/tasks/id/retry  Bearer secret"},
		{func() error { _, err := c.ForceRetry(ctx, "id"); return err }, `POST /below/api/v1/tasks/id/retry application/json Bearer secret {"force":true}`},
		{func() error { _, err := c.ForceRetryOver(ctx, "id", "task-1"); return err }, `POST /below/api/v1/tasks/id/retry application/json Bearer secret {"force":"task-1"}`},
		{func() error { _, err := c.Pools(ctx, wire.Page{}); return err }, "GET /below/api/v1/pools  Bearer secret"},
		{func() error { _, err := c.PausePool(ctx, "mail"); return err }, "POST /below/api/v1/pools/mail/pause application/json Bearer secret {}"},
		{func() error { _, err := c.ResumePool(ctx, "mail"); return err }, "POST /below/api/v1/pools/mail/resume application/json Bearer secret {}"},
		{func() error { _, err := c.ResetPause(ctx, "mail"); return err }, `POST /below/api/v1/pools/mail/resume application/json Bearer secret {"reset":true}`},
		{func() error {
			_, err := c.LimitPool(ctx, "mail", &wire.PoolLimits{MaxRunning: new(0), Rate: &jobs.Rate{Count: 100, Per: time.Second}, Burst: new(20)})
			return err
		}, `POST /below/api/v1/pools/mail/limits application/json Bearer secret {"max_running":0,"rate":"100/s","burst":20}`},
		{func() error {
			_, err := c.LimitPool(ctx, "mail", &wire.PoolLimits{Rate: new(jobs.Rate)})
			return err
		}, `POST /below/api/v1/pools/mail/limits application/json Bearer secret {"rate":"0"}`},
		{func() error {
			_, err := c.LimitPool(ctx, "mail", &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(2)}, PerKind: map[string]wire.LimitFields{"a": {Rate: new(jobs.Rate)}}, Fair: &wire.Fair{Weights: map[string]int{"k": 3}}, Reset: []string{"rate"}})
			return err
		}, `POST /below/api/v1/pools/mail/limits application/json Bearer secret {"per_key":{"max_running":2},"per_kind":{"a":{"rate":"0"}},"fair":{"weights":{"k":3}},"reset":["rate"]}`},
		{func() error { _, err := c.LimitPool(ctx, "mail", nil); return err }, `POST /below/api/v1/pools/mail/limits application/json Bearer secret {"reset":true}`},
		{func() error { _, err := c.Paused(ctx); return err }, "GET /below/api/v1/pause  Bearer secret"},
		{func() error {
			_, err := c.PauseAll(ctx, wire.Pause{Reason: "an upgrade", Until: since.UTC(), By: "not sent", Since: since})
			return err
		}, `POST /below/api/v1/pause application/json Bearer secret {"reason":"an upgrade","until":"2026-01-02T02:04:05.000006Z"}`},
		{func() error { _, err := c.ResumeAll(ctx); return err }, "POST /below/api/v1/resume  Bearer secret"},
		{func() error { _, err := c.Replicas(ctx, wire.Page{}); return err }, "GET /below/api/v1/replicas  Bearer secret"},
		{func() error { _, err := c.Locks(ctx, "sys/", wire.Page{}); return err }, "GET /below/api/v1/locks?prefix=sys%2F  Bearer secret"},
		{func() error { _, err := c.ReleaseLock(ctx, "user/a", 7); return err }, `POST /below/api/v1/locks/release application/json Bearer secret {"key":"user/a","token":7}`},
		{func() error { _, err := c.Audit(ctx, wire.Page{Limit: 7}); return err }, "GET /below/api/v1/audit?limit=7  Bearer secret"},
		{func() error { _, err := c.Ready(ctx); return err }, "GET /below/readyz  Bearer secret"},
	}
	for _, call := range calls {
		*asked = nil
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.want, err)
		}
		if diff := cmp.Diff([]string{call.want}, *asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
}

// TestForceOverNothing: a lost attempt that is not named is refused without a request, rather than forcing something else.
func TestForceOverNothing(t *testing.T) {
	c, asked := server(t, http.StatusOK, "application/json", `{}`)
	if _, err := c.ForceRetryOver(t.Context(), "id", ""); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "ForceRetry") {
		t.Error(err)
	}
	if len(*asked) > 0 {
		t.Errorf("asked: %v", *asked)
	}
}

// TestImpossibleNames: names that no path can have are refused without a request.
func TestImpossibleNames(t *testing.T) {
	c, asked := server(t, http.StatusOK, "application/json", `{}`)
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.RunJob(t.Context(), name); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(*asked) > 0 {
		t.Errorf("asked: %v", *asked)
	}
}

// TestRefusals: a refusal has all fields of the response.
func TestRefusals(t *testing.T) {
	const elsewhere = ", which is none of the API: is this the address of a replica, with the path that the API is mounted at?"
	tests := []struct {
		status            int
		contentType, body string
		want              Error
		is                error // what it matches
	}{
		{404, "application/json; charset=utf-8", `{"error":{"code":"not_found","message":"there is no job \"x\""}}`, Error{404, wire.Problem{Code: "not_found", Message: `there is no job "x"`}}, jobs.ErrNotFound},
		{409, "application/json", `{"error":{"code":"conflict","message":"m"}}`, Error{409, wire.Problem{Code: "conflict", Message: "m"}}, jobs.ErrConflict},
		{409, "application/json", `{"error":{"code":"conflict","message":"m","force":"t"}}`, Error{409, wire.Problem{Code: "conflict", Message: "m", Force: "t"}}, jobs.ErrConflict},
		{400, "application/json", `{"error":{"code":"malformed","message":"m","field":"limit"}}`, Error{400, wire.Problem{Code: "malformed", Message: "m", Field: "limit"}}, jobs.ErrInvalid},
		{422, "application/json", `{"error":{"code":"invalid","message":"m"}}`, Error{422, wire.Problem{Code: "invalid", Message: "m"}}, jobs.ErrInvalid},
		{422, "application/json", `{"error":{"code":"no_handler","message":"m","field":"kind"}}`, Error{422, wire.Problem{Code: "no_handler", Message: "m", Field: "kind"}}, errors.Join(jobs.ErrInvalid, jobs.ErrNoHandler)},
		{503, "application/json", `{"error":{"code":"unavailable","message":"m"}}`, Error{503, wire.Problem{Code: "unavailable", Message: "m"}}, jobs.ErrUnavailable},
		{502, "text/html", `<h1>proxy</h1>`, Error{502, wire.Problem{Code: "unknown", Message: "the response was 502 Bad Gateway"}}, jobs.ErrUnavailable},
		{504, "", "", Error{504, wire.Problem{Code: "unknown", Message: "the response was 504 Gateway Timeout"}}, jobs.ErrUnavailable},
		{503, "text/html", `<h1>proxy</h1>`, Error{503, wire.Problem{Code: "unknown", Message: "the response was 503 Service Unavailable"}}, jobs.ErrUnavailable},
		{500, "application/json", `{`, Error{500, wire.Problem{Code: "unknown", Message: "the response was 500 Internal Server Error"}}, nil},
		{302, "text/html", ``, Error{302, wire.Problem{Code: "unknown", Message: "the response was 302 Found" + elsewhere}}, nil},
		{404, "text/plain", "404 page not found", Error{404, wire.Problem{Code: "unknown", Message: "the response was 404 Not Found" + elsewhere}}, nil},
		{404, "application/json", `{"error":{"code":"no_path","message":"there is nothing at this path"}}`, Error{404, wire.Problem{Code: "no_path", Message: "there is nothing at this path"}}, nil},
		{413, "application/json", `{"error":{"code":"too_large","message":"larger than 256 KiB","field":"payload"}}`, Error{413, wire.Problem{Code: "too_large", Message: "larger than 256 KiB", Field: "payload"}}, jobs.ErrInvalid},
	}
	for _, test := range tests {
		c, asked := server(t, test.status, test.contentType, test.body)
		_, err := c.RunJob(t.Context(), "x")
		var got *Error
		if !errors.As(err, &got) {
			t.Errorf("%d: %v", test.status, err)
			continue
		}
		if diff := cmp.Diff(test.want, *got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", test.status, diff)
		}
		for _, sentinel := range []error{jobs.ErrNotFound, jobs.ErrConflict, jobs.ErrInvalid, jobs.ErrNoHandler, jobs.ErrUnavailable} {
			if errors.Is(err, sentinel) != errors.Is(test.is, sentinel) {
				t.Errorf("%d: is %v: %v", test.status, sentinel, errors.Is(err, sentinel))
			}
		}
		if len(*asked) != 1 {
			t.Errorf("%d: asked %d times", test.status, len(*asked))
		}
	}
}

// TestEnqueueOfOneCall: no tasks need no request, and tasks of several pools are refused without one.
func TestEnqueueOfOneCall(t *testing.T) {
	c, asked := server(t, http.StatusCreated, "application/json", `{"items":[{"id":"1"},{"id":"2","existed":true}]}`)
	if tasks, err := c.Enqueue(t.Context()); len(tasks) > 0 || err != nil || len(*asked) > 0 {
		t.Errorf("%v, %v, asked %v", tasks, err, *asked)
	}
	one, other := jobs.NewTask{Pool: "one"}, jobs.NewTask{Pool: "other"}
	if _, err := c.Enqueue(t.Context(), one, one, other); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), `"other"`) || len(*asked) > 0 {
		t.Errorf("%v, asked %v", err, *asked)
	}
	want := []jobs.Enqueued{{Task: jobs.Task{ID: "1"}}, {Task: jobs.Task{ID: "2"}, Existed: true}}
	if tasks, err := c.Enqueue(t.Context(), one, one); err != nil || !cmp.Equal(want, tasks) {
		t.Errorf("%v, %v", tasks, err)
	}
}

// TestReady: an unready replica is no error.
func TestReady(t *testing.T) {
	c, _ := server(t, http.StatusServiceUnavailable, "application/json", `{"ready":false,"conditions":[{"name":"store","ready":false,"detail":"away"}]}`)
	ready, err := c.Ready(t.Context())
	if err != nil || ready.Ready || len(ready.Conditions) != 1 || ready.Conditions[0].Detail != "away" {
		t.Errorf("%+v, %v", ready, err)
	}
}

// TestUnreachable: only without a connection it is certain that nothing was done.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	c, err := New(address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	hungUp := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Read(make([]byte, 4096))
			err = errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close()) // a reset
		}
		hungUp <- err
	}()
	if _, err := c.RunJob(t.Context(), "x"); err == nil || errors.Is(err, ErrUnreachable) {
		t.Errorf("hung up: %v", err)
	}
	if err := <-hungUp; err != nil {
		t.Error(err)
	}
	l.Close()
	if _, err := c.RunJob(t.Context(), "x"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), address) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestBadAnswers(t *testing.T) {
	for _, body := range []string{``, `{`, `[]`, `"x"`} {
		c, _ := server(t, http.StatusOK, "application/json", body)
		if _, err := c.Job(t.Context(), "x"); err == nil {
			t.Errorf("%q was taken for a job", body)
		}
	}
}

func TestNew(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "localhost:8080", "ftp://host", "http://", "http://:8080", "http://user:pass@host", "http://host?x=y", "http://host#x", "http://ho st", "://",
		"http://u:CANARY@host", "http://u:CANARY@ho st", "http://host?CANARY", "http://u:CANARY@host:port", "u:CANARY@host"} {
		if _, err := New(base, Options{}); err == nil || strings.Contains(err.Error(), "CANARY") || !strings.HasPrefix(err.Error(), "client: ") || !strings.Contains(err.Error(), "http://127.0.0.1:8080") && !strings.Contains(err.Error(), "token") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// TestTLS: the authorities of one Client affect it alone.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	authorities := x509.NewCertPool()
	authorities.AddCert(srv.Certificate())
	for _, test := range []struct {
		options Options
		trusts  bool
	}{
		{Options{TLS: &tls.Config{RootCAs: authorities}}, true},
		{Options{}, false},
		{Options{TLS: &tls.Config{RootCAs: x509.NewCertPool()}}, false},
	} {
		c, err := New(srv.URL, test.options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Job(t.Context(), "backup"); (err == nil) != test.trusts {
			t.Errorf("TLS %v: %v", test.options.TLS, err)
		}
	}
}
