package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// TestShapes: the format of responses, on which programs depend.
func TestShapes(t *testing.T) {
	const twith = `{"id":"task-1","pool":"mail","kind":"welcome","state":"pending","attempt":0,"max_attempts":11,"priority":0,` +
		`"run_at":"2026-03-01T08:00:00.000123Z","created_at":"2026-03-01T08:00:00.000123Z","payload":{"n":1e400,"s":"\u003c"},"payload_size":19,"tags":["a"]}`
	const task2 = `"id":"task-2","pool":"default","job":"backup","scheduled_at":"2026-03-01T08:00:00.000123Z","state":"failed","reason":"exit 3",` +
		`"attempt":2,"max_attempts":2,"token":7,"replica":"r1","priority":0,"run_at":"2026-03-01T08:00:00.000123Z","created_at":"2026-03-01T08:00:00.000123Z",` +
		`"started_at":"2026-03-01T08:00:00.000123Z","finished_at":"2026-03-01T08:00:00.000123Z","exit_code":3,"error":"exit status 3","payload":"not json","payload_size":8`
	const trigger = `{"job":"backup","at":"2026-03-01T08:00:00.000123Z","count":1,"cause":"schedule","outcome":"ran","result":"failed","task_id":"task-2",` +
		`"replica":"r1","decided_at":"2026-03-01T08:00:00.000123Z","started_at":"2026-03-01T08:00:00.000123Z","finished_at":"2026-03-01T08:00:00.000123Z"}`
	const backup = `{"name":"backup","schedules":["30 2 * * *"],"timezone":"Europe/London","starts_at":"2026-01-01T00:00:00Z","ends_at":"2999-01-01T00:00:00Z","jitter":"30s","pool":"default","timeout":"24h0m0s","concurrency":"forbid","on_lost":"fail","catch_up":{"policy":"latest","window":"24h0m0s","grace":"10s"},"priority":5,` +
		`"labels":{"team":"infra"},"suspended":false,"next_at":"2026-03-01T08:00:00.000123Z","next_start_at":"2026-03-01T08:00:07.000123Z","open":1,"last":{"job":"backup","at":"2026-03-01T08:00:00.000123Z","count":1,"cause":"schedule"}}`
	backupWhole := strings.Replace(backup, `"suspended"`, `"params":{"type":"object","properties":{"to":{"items":{"type":"string"}}}},"suspended"`, 1)
	const report = `{"name":"report","timezone":"UTC","spread":"10m0s","pool":"default","timeout":"24h0m0s","concurrency":"forbid","on_lost":"fail","catch_up":{"policy":"latest","window":"24h0m0s","grace":"10s"},"suspended":true,"open":0}`
	const gone = `{"name":"gone","suspended":false,"retired":true,"open":0}`
	const mail = `{"name":"mail","kinds":["bye","welcome"],"workers":8,"max_running":20,"paused":false,"pending":2,"scheduled":0,"running":0}`
	const lockA = `{"key":"user/a","place":0,"token":6,"mode":"limited","limit":3,"since":"2026-03-01T08:00:00.000123Z","remaining":"2.5s"}`
	const waitsA = `{"key":"user/a","place":1,"mode":"shared","owner":"web-1/42","meta":"./backup.sh"}`
	const lockB = `{"key":"user/b","place":0,"token":7,"mode":"exclusive"}`
	const orders = `,"orders":[{"id":"task-2","job":"report","kind":"run","state":"open","created_at":"2026-03-01T08:00:00Z","at":"2026-03-01T08:00:00Z"},` +
		`{"id":"task-1","job":"report","kind":"run","state":"open","created_at":"2026-03-01T08:00:00Z","at":"2026-03-01T08:00:00Z"}]}`
	tests := []struct {
		method, target, want string
	}{
		{"GET", "/api/v1/tasks/task-1", strings.TrimSuffix(twith, "}") + `,"attempts":[]}`},
		{"GET", "/api/v1/tasks/task-2", `{` + task2 + `,"attempts":[{"attempt":1,"state":"failed"}]}`},
		{"GET", "/api/v1/tasks", `{"items":[` + twith + `,{` + task2 + `}]}`},
		{"GET", "/api/v1/triggers", `{"items":[` + trigger + `],"next":"bmV4dA=="}`},
		{"GET", "/api/v1/jobs/backup/triggers", `{"items":[` + trigger + `],"next":"bmV4dA=="}`},
		{"GET", "/api/v1/jobs/backup", backupWhole},
		{"GET", "/api/v1/jobs", `{"items":[` + backup + `,` + report + `]}`},
		{"GET", "/api/v1/jobs?retired=true&limit=2", `{"items":[` + backup + `,` + gone + `],"next":"am9icwpnb25l"}`},
		{"GET", "/api/v1/jobs?retired=true&limit=2&cursor=am9icwpnb25l", `{"items":[` + report + `]}`},
		{"GET", "/api/v1/jobs?cursor=am9icwp6eno", `{"items":[]}`},
		{"GET", "/api/v1/jobs?prefix=rep", `{"items":[` + report + `]}`},
		{"GET", "/api/v1/jobs?prefix=x", `{"items":[]}`},
		{"GET", "/api/v1/jobs/report/next", `{"items":[]}`},
		{"GET", "/api/v1/pools?limit=500", `{"items":[{"name":"default","workers":10,"paused":false,"pending":0,"scheduled":0,"running":0},` + mail + `]}`},
		{"GET", "/api/v1/pause", `{"paused":false}`},
		{"POST", "/api/v1/resume", `{"paused":false,"was_paused":false}`},
		{"GET", "/api/v1/replicas?limit=1", `{"items":[{"id":"r1","state":"dead","workers":64,"joined_at":"2026-03-01T08:00:00.000123Z"}],"next":"cmVwbGljYXMKcjEgMjAyNi0wMy0wMVQwODowMDowMC4wMDAxMjNa"}`},
		{"GET", "/api/v1/replicas?limit=2&cursor=cmVwbGljYXMKcjEgMjAyNi0wMy0wMVQwODowMDowMC4wMDAxMjNa", `{"items":[{"id":"r1","state":"live","workers":64,"joined_at":"2026-03-01T08:00:01.000123Z"},{"id":"r2","state":"draining"}]}`},
		{"GET", "/api/v1/locks", `{"items":[{"key":"sys/stripe/01","place":0,"token":5,"mode":"exclusive","owner":"r1","session":"s"},` + lockA + `,` + waitsA + `,` + lockB + `]}`},
		{"GET", "/api/v1/locks?prefix=user/&limit=1", `{"items":[` + lockA + `],"next":"bG9ja3MKdXNlci9hIDAwMDAwMCAwMDAwMDAwMDAwMDAwMDAwMDAwNg"}`},
		{"GET", "/api/v1/locks?prefix=user/&limit=2&cursor=bG9ja3MKdXNlci9hIDAwMDAwMCAwMDAwMDAwMDAwMDAwMDAwMDAwNg", `{"items":[` + waitsA + `,` + lockB + `]}`},
		{"GET", "/healthz", `{"live":true}`},
		{"GET", "/readyz", `{"ready":true,"conditions":[{"name":"store","ready":true}]}`},
		{"POST", "/api/v1/jobs/report/run", `{"trigger":{"job":"report","at":"0001-01-01T00:00:00Z","count":0,"cause":"manual","by":"api:127.0.0.1"},"task":` + twith + `}`},
		{"POST", "/api/v1/jobs/backup/suspend", strings.Replace(backupWhole, `"suspended":false`, `"suspended":true,"suspended_override":true,"suspended_by":"api:127.0.0.1","suspended_defined":false`, 1)},
		{"POST", "/api/v1/jobs/report/resume", strings.TrimSuffix(strings.Replace(report, `"suspended":true`, `"suspended":false,"suspended_override":false,"suspended_by":"api:127.0.0.1","suspended_defined":true`, 1), "}") + orders},
		{"POST", "/api/v1/pools/mail/pause", strings.Replace(mail, `"paused":false`, `"paused":true,"paused_override":true`, 1)},
		{"POST", "/api/v1/pools/mail/limits?reset=true", mail},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			w := ask(t, newBackend().api(Options{}), test.method, test.target, "")
			if w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("content type %q", w.Header().Get("Content-Type"))
			}
			if diff := cmp.Diff(test.want+"\n", w.Body.String()); diff != "" {
				t.Errorf("%d (-want +got):\n%s", w.Code, diff)
			}
		})
	}
}

// TestFilters: parameters reach the store's filters.
func TestFilters(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	ask(t, h, "GET", "/api/v1/tasks?pool=mail&job=backup&state=running&limit=500&cursor=abc", "")
	ask(t, h, "GET", "/api/v1/triggers?job=backup&outcome=ran&result=failed&since=2026-01-02T03:04:05%2B01:00", "")
	ask(t, h, "GET", "/api/v1/jobs/report/triggers?outcome=missed&cursor=YWJj", "")
	want := []any{
		wire.TaskFilter{Pool: "mail", Job: "backup", State: jobs.StateRunning, Page: wire.Page{Limit: 500, Cursor: "abc"}},
		wire.TriggerFilter{Job: "backup", Outcome: jobs.Ran, Result: jobs.StateFailed, Since: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC), Page: wire.Page{Limit: 50}},
		wire.TriggerFilter{Job: "report", Outcome: jobs.Missed, Page: wire.Page{Limit: 50, Cursor: "YWJj"}},
	}
	if diff := cmp.Diff(want, b.filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
}

// The due times of all jobs are in order, from each job's first one on; what is past is overdue.
func TestNextOfAll(t *testing.T) {
	b := newBackend()
	b.set.Jobs["often"] = jobs.Job{Schedule: "@every 10m", Suspend: true}
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	b.next = []ledger.NextDue{{Job: "often", At: at("2026-03-28T02:20:00Z")}, {Job: "unknown", At: at("2026-03-28T02:30:00Z"), Suspended: new(true)}, {Job: "backup", At: at("2026-03-28T02:30:00Z")}}
	const (
		often   = `{"job":"often","at":"2026-03-28T02:%[1]d0:00Z","local":"2026-03-28T02:%[1]d0:00Z","suspended":true}`
		unknown = `{"job":"unknown","at":"2026-03-28T02:30:00Z","local":"2026-03-28T02:30:00Z","suspended":true}`
		first   = `{"job":"backup","at":"2026-03-28T02:30:00Z","local":"2026-03-28T02:30:00Z","start_before":"2026-03-28T02:30:30Z"}`
	)
	until := func(text string) string { return "/api/v1/next?until=" + text }
	for target, want := range map[string][]string{
		until("2026-03-28T02:30:00Z"):   {fmt.Sprintf(often, 2)},
		until("2026-03-28T02:40:00.5Z"): {fmt.Sprintf(often, 2), first, fmt.Sprintf(often, 3), unknown, fmt.Sprintf(often, 4)},
		"/api/v1/next?limit=1":          {fmt.Sprintf(often, 2)},
		until("1999-01-01T00:00:00Z"):   nil,
	} {
		w := ask(t, b.api(Options{}), "GET", target, "")
		if got := w.Body.String(); got != `{"items":[`+strings.Join(want, ",")+"]}\n" {
			t.Errorf("%s: %d %s", target, w.Code, got)
		}
	}
	for target, field := range map[string]string{"limit=0": "limit", "limit=501": "limit", "until=soon": "until"} {
		if w := ask(t, b.api(Options{}), "GET", "/api/v1/next?"+target, ""); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	b.err = jobs.ErrUnavailable
	if w := ask(t, b.api(Options{}), "GET", "/api/v1/next", ""); w.Code != 503 {
		t.Errorf("without the store: %d %s", w.Code, w.Body)
	}
}

// TestNext: due times are in order, in the future, and shown in the job's zone too.
func TestNext(t *testing.T) {
	w := ask(t, newBackend().api(Options{}), "GET", "/api/v1/jobs/backup/next?n=100", "")
	var got struct{ Items []wire.Due }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Items) != 100 {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	last := time.Now()
	for _, due := range got.Items {
		local, err := time.Parse(time.RFC3339, due.Local)
		if err != nil || !local.Equal(due.At) || due.At.Location() != time.UTC || !due.At.After(last) || !strings.Contains(due.Local, "T02:30:00") {
			t.Errorf("%v %v: %v", due.At, due.Local, err)
		}
		last = due.At
	}
}

// TestNextWithJitter: the start is shown where it is known in which namespace it is drawn, and else before when it is.
func TestNextWithJitter(t *testing.T) {
	b := newBackend()
	next := func() []wire.Due {
		var got struct{ Items []wire.Due }
		w := ask(t, b.api(Options{}), "GET", "/api/v1/jobs/backup/next?n=20", "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Items) != 20 {
			t.Fatalf("%v: %d %s", err, w.Code, w.Body)
		}
		return got.Items
	}
	for _, due := range next() {
		if !due.StartAt.IsZero() || !due.StartBefore.Equal(due.At.Add(30*time.Second)) {
			t.Errorf("in an unknown namespace: %+v", due)
		}
	}
	namespace := "prod"
	b.namespace = &namespace
	job := b.set.Jobs["backup"]
	times, err := job.Compile("backup")
	if err != nil {
		t.Fatal(err)
	}
	for _, due := range next() {
		if !due.StartAt.Equal(job.Starts(times, "backup", "prod").Of(due.At)) || due.StartAt.Equal(due.At) || !due.StartBefore.IsZero() {
			t.Errorf("in prod: %+v", due)
		}
	}
}

// TestLogs: output is sent as a text download, never displayed.
func TestLogs(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		w := ask(t, newBackend().api(Options{}), method, "/api/v1/tasks/task-2/logs?attempt=1", "")
		if got := w.Body.String(); got != "Plain \uFFFD <script>\x00" {
			t.Errorf("%q", got)
		}
		got := w.Header()
		if got.Get("Content-Type") != "text/plain; charset=utf-8" || got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Content-Disposition") != `attachment; filename="task-2.txt"` {
			t.Errorf("%v", got)
		}
	}
}

// TestUnknownKinds: a pending task that no live replica can run has a reason; one that another replica can run has
// none.
func TestUnknownKinds(t *testing.T) {
	b := newBackend()
	b.pools[1].Kinds = []string{"bye", "elsewhere", "welcome"}
	h := b.api(Options{})
	for body, why := range map[string]string{
		`{"kind":"welcome"}`:               "",
		`{"kind":"elsewhere"}`:             "",
		`{"kind":"welcom","force":true}`:   `no live replica has kind "welcom"`,
		`{"force":true}`:                   "without a kind",
		`{"kind":"welcome","force":false}`: "",
	} {
		w := ask(t, h, "POST", "/api/v1/pools/mail/tasks", body)
		var got struct{ Items []jobs.Task }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Items) != 1 {
			t.Fatalf("%s: %v %s", body, err, w.Body)
		}
		if reason := got.Items[0].Reason; (why == "") != (reason == "") || !strings.Contains(reason, why) {
			t.Errorf("%s: reason %q, want %q", body, reason, why)
		}
	}
	b.tasks[0].Kind, b.tasks[0].Reason = "gone", "an earlier attempt"
	for _, target := range []string{"/api/v1/tasks", "/api/v1/tasks/task-1"} {
		if w := ask(t, h, "GET", target, ""); !strings.Contains(w.Body.String(), `"reason":"an earlier attempt; no live replica has kind \"gone\" in the pool: it will not run","reason_code":"no_handler"`) {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
}

// TestPoolsWithoutAHandler: a pool for jobs only is named, with the advice, wherever its tasks are refused or pending;
// the kind is not the cause.
func TestPoolsWithoutAHandler(t *testing.T) {
	const remedy = "give it http, command, shell, func or worker, or kinds, under pools"
	b := newBackend()
	mail := b.set.Pools["mail"]
	mail.Handler, mail.Kinds = nil, nil
	b.set.Pools["mail"] = mail
	b.pools[1].Kinds, b.pools[1].Unrunnable = []string{}, []ledger.Unrunnable{{Tasks: 1}}
	h := b.api(Options{})
	for body, field := range map[string]string{`{}`: "", `{"kind":"x"}`: "", `[{"force":true},{}]`: "[1]"} {
		w := ask(t, h, "POST", "/api/v1/pools/mail/tasks", body)
		var got struct {
			Error struct{ Code, Message, Field string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if e := got.Error; e.Code != "no_handler" || e.Field != field || !strings.HasPrefix(e.Message, "pool mail has no handler: "+remedy+"; ") {
			t.Errorf("%s: %+v", body, e)
		}
	}
	const waits = "pool mail has no handler in any live replica: it will not run; " + remedy
	for _, target := range []string{"/api/v1/tasks", "/api/v1/tasks/task-1"} {
		if w := ask(t, h, "GET", target, ""); !strings.Contains(w.Body.String(), waits) {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	if got, err := newAPI(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{}).overview(t.Context()); err != nil || got.Trouble[0].Reason != waits || got.Trouble[0].ReasonCode != "no_handler" {
		t.Errorf("%v %+v", err, got.Trouble)
	}
}

// A job's handler is shown by its own description, also inside a wrapper, and never by its identity.
func TestHandlersAreDescribed(t *testing.T) {
	b := newBackend()
	h := jobs.Func(func(context.Context, jobs.Task, int) error { return nil })
	for want, handler := range map[string]jobs.Handler{
		`"handler":"func `:                   h,
		`"handler":"send report: func `:      jobs.Named("send report", h),
		`"handler":"send all reports: func `: jobs.Wrap(jobs.Named("send all reports", h), func(next jobs.Handler) jobs.Handler { return jobs.HandlerFunc(next.Run) }),
	} {
		b.set.Jobs["report"] = jobs.Job{Handler: handler}
		if w := ask(t, b.api(Options{}), "GET", "/api/v1/jobs/report", ""); !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "named") {
			t.Errorf("%s, want %s", w.Body, want)
		}
	}
}

// TestKindsThatAreRefused: the error names the task of a list, and the known kinds.
func TestKindsThatAreRefused(t *testing.T) {
	b := newBackend()
	b.pools[1].Kinds = []string{"bye", "welcome"}
	h := b.api(Options{})
	for body, field := range map[string]string{
		`{"kind":"welcom"}`:                             "kind",
		`[{"kind":"bye"},{"kind":"welcom"}]`:            "[1].kind",
		`[{"kind":"x","force":true},{"kind":"welcom"}]`: "[1].kind",
	} {
		w := ask(t, h, "POST", "/api/v1/pools/mail/tasks", body)
		var got struct {
			Error struct{ Code, Message, Field string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusUnprocessableEntity {
			t.Fatalf("%s: %v %d %s", body, err, w.Code, w.Body)
		}
		if e := got.Error; e.Code != "no_handler" || e.Field != field || e.Message != `pool mail has no kind "welcom"; it has bye, welcome; if replicas that can run it follow, use force` {
			t.Errorf("%s: %+v", body, e)
		}
	}
	if len(b.changes) > 0 {
		t.Errorf("changed: %v", b.changes)
	}
}

// TestForceNamesTheLostAttempt: a run that is refused for a lost attempt names the force, and no other force works.
func TestForceNamesTheLostAttempt(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	for _, with := range []struct{ query, body string }{{}, {"?force=true", ""}, {"?force=task-2", ""}, {"", `{"force":true}`}, {"", `{"force":"task-2"}`}, {"?force=task-1", `{"force":"task-2"}`}} {
		w := ask(t, h, "POST", "/api/v1/jobs/backup/run"+with.query, with.body)
		var got struct {
			Error struct{ Code, Message, Force string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 409 || got.Error.Code != "conflict" || got.Error.Force != "task-1" {
			t.Errorf("%+v: %d %s", with, w.Code, w.Body)
		}
	}
	if len(b.changes) != 0 {
		t.Errorf("changed: %q", b.changes)
	}
	for _, with := range []struct{ query, body string }{{"?force=task-1", ""}, {"", `{"force":"task-1"}`}, {"?force=task-1", `{"force":null}`}} {
		if w := ask(t, h, "POST", "/api/v1/jobs/backup/run"+with.query, with.body); w.Code != 201 {
			t.Errorf("%+v: %d %s", with, w.Code, w.Body)
		}
	}
	if w := ask(t, h, "POST", "/api/v1/tasks/task-1/cancel", ""); strings.Contains(w.Body.String(), `"force"`) {
		t.Errorf("another conflict: %s", w.Body)
	}
}

// TestRetriesThatAreRefused: a retry is refused like an enqueue, unless forced.
func TestRetriesThatAreRefused(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	for i := range b.tasks {
		b.tasks[i].Kind = "gone"
	}
	for _, with := range []struct{ query, body string }{{}, {"?force=false", ""}, {"", `{"force":false}`}} {
		w := ask(t, h, "POST", "/api/v1/tasks/task-2/retry"+with.query, with.body)
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"no_handler"`) {
			t.Errorf("%+v: %d %s", with, w.Code, w.Body)
		}
	}
	if len(b.changes) > 0 {
		t.Errorf("changed: %v", b.changes)
	}
	for _, with := range []struct{ query, body string }{{"?force=true", ""}, {"", `{"force":true}`}} {
		if w := ask(t, h, "POST", "/api/v1/tasks/task-2/retry"+with.query, with.body); w.Code != http.StatusCreated {
			t.Errorf("%+v: %d %s", with, w.Code, w.Body)
		}
	}
}

// TestUnrunnableTasks: the overview lists them first in trouble, and the pools count them.
func TestUnrunnableTasks(t *testing.T) {
	b := newBackend()
	since := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	b.pools[1].Kinds, b.pools[1].Unrunnable = []string{"bye"}, []ledger.Unrunnable{{Kind: "typo", Tasks: 3, Since: since}, {Tasks: 1, Since: since}}
	got, err := newAPI(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{}).overview(t.Context())
	if err != nil || len(got.Trouble) < 2 {
		t.Fatalf("%v %+v", err, got.Trouble)
	}
	if tr := got.Trouble[0]; tr.State != "unrunnable" || tr.Pool != "mail" || tr.Kind != "typo" || tr.Count != 3 || !tr.At.Equal(since) || !strings.Contains(tr.Reason, `no live replica has kind "typo"`) {
		t.Errorf("trouble: %+v", tr)
	}
	if tr := got.Trouble[1]; tr.Kind != "" || !strings.Contains(tr.Reason, "without a kind") {
		t.Errorf("trouble: %+v", tr)
	}
	for _, p := range got.Pools {
		if want := map[string]int{"mail": 4}[p.Name]; p.Unrunnable != want {
			t.Errorf("pool %s: %d", p.Name, p.Unrunnable)
		}
	}
}

// TestJobsThatNoLabelsMatch: due tasks of a job that no live replica runs are trouble, and the job and its tasks have
// the reason.
func TestJobsThatNoLabelsMatch(t *testing.T) {
	const why = "no live replica has the labels that the job runs on (disk=fast, zone=b): it will not run"
	b := newBackend()
	job := b.set.Jobs["backup"]
	job.RunsOn = map[string]string{"zone": "b", "disk": "fast"}
	b.set.Jobs["backup"], b.jobs[0].Hash = job, job.Hash()
	due := b.tasks[0].RunAt
	later := jobs.Task{ID: "later", Pool: "default", Job: "backup", State: jobs.StatePending, RunAt: time.Now().Add(time.Hour)}
	first := jobs.Task{ID: "first", Pool: "default", Job: "backup", State: jobs.StatePending, RunAt: due}
	second := jobs.Task{ID: "second", Pool: "default", Job: "backup", State: jobs.StatePending, RunAt: due.Add(time.Minute)}
	b.tasks = []jobs.Task{later, second, first}
	h := b.api(Options{})
	look := func() (trouble []ledger.Trouble) {
		t.Helper()
		got, err := newAPI(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{}).overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range got.Trouble {
			if tr.State == ledger.StateUnrunnable {
				trouble = append(trouble, tr)
			}
		}
		return trouble
	}
	says := func(want bool) {
		t.Helper()
		for _, target := range []string{"/api/v1/jobs", "/api/v1/jobs/backup", "/api/v1/tasks", "/api/v1/tasks/first"} {
			if w := ask(t, h, "GET", target, ""); strings.Contains(w.Body.String(), why) != want {
				t.Errorf("%s: %s", target, w.Body)
			}
		}
	}
	all := look()
	if len(all) != 1 || all[0].Job != "backup" || all[0].Pool != "default" || all[0].Count != 2 || !all[0].At.Equal(due) || all[0].Reason != why || all[0].ReasonCode != "no_replica" {
		t.Errorf("trouble: %+v", all)
	}
	says(true)
	if w := ask(t, h, "GET", "/api/v1/tasks/first", ""); !strings.Contains(w.Body.String(), `"reason_code":"no_replica"`) {
		t.Errorf("a task without its code: %s", w.Body)
	}
	if f, ok := b.filters[0].(wire.TaskFilter); !ok || f.Job != "backup" || f.State != jobs.StatePending {
		t.Errorf("asked for %+v", b.filters[0])
	}

	// Another configuration governs the job: its labels are unknown here.
	b.jobs[0].Hash = "other"
	if all := look(); len(all) > 0 {
		t.Errorf("another configuration: %+v", all)
	}
	b.jobs[0].Hash = job.Hash()

	for i := range b.peers { // those that are dead or drain have them, which is of no use
		b.peers[i].Labels = map[string]string{"zone": "b", "disk": "fast", "rack": "7"}
	}
	b.peers[1].Labels = map[string]string{"zone": "b"}
	if all := look(); len(all) != 1 {
		t.Errorf("with some of the labels: %+v", all)
	}
	b.peers[1].Labels = b.peers[0].Labels
	if all := look(); len(all) > 0 {
		t.Errorf("with the labels: %+v", all)
	}
	says(false)
	b.peers = b.peers[:1]
	if all := look(); len(all) > 0 {
		t.Errorf("where none lives: %+v", all)
	}
}

// TestRunOfARetiredJob: the error says why a listed job cannot be run.
func TestRunOfARetiredJob(t *testing.T) {
	w := ask(t, newBackend().api(Options{}), "POST", "/api/v1/jobs/gone/run", "")
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "retired") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestReady(t *testing.T) {
	b := newBackend()
	b.health = []wire.Condition{{Name: "store", Ready: false, Detail: "connection refused"}, {Name: "lock", Ready: true, Detail: "down; the store decides"}}
	w := ask(t, b.api(Options{}), "GET", "/readyz", "")
	want := `{"ready":false,"conditions":[{"name":"store","ready":false,"detail":"connection refused"},{"name":"lock","ready":true,"detail":"down; the store decides"}]}` + "\n"
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// One job is shown with its open orders, which have their payloads elsewhere; lists leave them out.
func TestJobShowsItsOpenOrders(t *testing.T) {
	h := newBackend().api(Options{})
	j := decode[wire.Job](t, ask(t, h, "GET", "/api/v1/jobs/report", "").Body.String())
	if len(j.Orders) != 2 || j.Orders[0].ID != "task-2" || j.Orders[0].Kind != wire.OrderRun || j.MoreOrders {
		t.Errorf("the job has orders %+v, more %v", j.Orders, j.MoreOrders)
	}
	for _, o := range j.Orders {
		if o.Payload != nil {
			t.Errorf("order %s has its payload %s", o.ID, o.Payload)
		}
	}
	if j = decode[wire.Job](t, ask(t, h, "GET", "/api/v1/jobs/backup", "").Body.String()); j.Orders != nil {
		t.Errorf("a job without orders has %+v", j.Orders)
	}
	if list := ask(t, h, "GET", "/api/v1/jobs", "").Body.String(); strings.Contains(list, `"orders"`) {
		t.Errorf("the list has orders: %s", list)
	}
}

// One open order has what it waits for, as far as its job is known; one that was cancelled has not, and lists leave it out.
func TestAnOpenOrderSaysWhatItWaitsFor(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	causes := func(method, target string) string {
		t.Helper()
		o := decode[wire.Order](t, ask(t, h, method, target, "").Body.String())
		if o.ID != "task-1" {
			t.Errorf("%s %s: %+v", method, target, o)
		}
		return codesOf(wire.Why{Causes: o.Causes})
	}
	if got := causes("GET", "/api/v1/orders/task-1"); got != "other_config" { // the fake store has it otherwise
		t.Errorf("an open order waits for %q", got)
	}
	if got := causes("POST", "/api/v1/orders/task-1/cancel"); got != "" {
		t.Errorf("a cancelled order waits for %q", got)
	}
	if list := ask(t, h, "GET", "/api/v1/orders", "").Body.String(); strings.Contains(list, `"causes"`) {
		t.Errorf("the list has causes: %s", list)
	}
	b.jobs = nil
	if got := causes("GET", "/api/v1/orders/task-1"); got != "" {
		t.Errorf("the order of a job that is gone waits for %q", got)
	}
}

// A job with more than 20 open orders is shown with 20 of them, and that there are more.
func TestJobSaysThatItHasMoreOrders(t *testing.T) {
	for open, more := range map[int]bool{19: false, 20: false, 21: true, 400: true} {
		b := newBackend()
		b.orders = open - 2
		body := ask(t, b.api(Options{}), "GET", "/api/v1/jobs/report", "").Body.String()
		if j := decode[wire.Job](t, body); len(j.Orders) != min(open, 20) || j.Orders[0].ID != "task-2" || j.MoreOrders != more || strings.Contains(body, `"more_orders":true`) != more {
			t.Errorf("of %d it has %d, more: %v", open, len(j.Orders), j.MoreOrders)
		}
	}
}

// One job is shown with what becomes of its output, what is expected of its runs, and the definition that governs, also where the replica that answers has another one.
func TestJobShowsItsDefinition(t *testing.T) {
	b := newBackend()
	job := b.set.Jobs["backup"]
	job.Output, job.Expect = jobs.Output{Keep: 4096, File: "/var/log/{{.job}}.log"}, jobs.Expect{StartWithin: time.Minute, FinishWithin: 2 * time.Hour}
	b.set.Jobs["backup"] = job
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b.history = []wire.Definition{{Job: "backup", Hash: "3f9a", Config: 7, Since: since}, {Job: "backup", Hash: "1", Until: since}}
	get := func() (j wire.Job) {
		t.Helper()
		return decode[wire.Job](t, ask(t, b.api(Options{}), "GET", "/api/v1/jobs/backup", "").Body.String())
	}
	j := get()
	want := wire.JobDefinition{Hash: "3f9a", Config: 7, Since: since, Differs: true, Own: "id of " + b.set.Jobs["backup"].WithDefaults().Hash()}
	if j.Definition == nil || *j.Definition != want {
		t.Errorf("definition %+v, want %+v", j.Definition, want)
	}
	if j.Output.String() != "keeps 4096 bytes; /var/log/{{.job}}.log, and 5 before it, of 10485760 bytes" || j.Expect.String() != "starts within 1m0s, ends within 2h0m0s" {
		t.Errorf("output %q, expect %q", j.Output, j.Expect)
	}
	b.jobs[0].Hash = b.set.Jobs["backup"].WithDefaults().Hash()
	if j = get(); j.Definition == nil || j.Definition.Differs {
		t.Errorf("the same definition: %+v", j.Definition)
	}
	b.history[0].Until = since
	if j = get(); j.Definition != nil {
		t.Errorf("none governs: %+v", j.Definition)
	}
}
