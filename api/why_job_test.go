package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

func causesOf(y wire.WhyJob) string { return codesOf(wire.Why{Causes: y.Causes}) }

// What the store does not know is added: the schedule and the zone, labels, locks that are held, the lock service, and another definition.
func TestWhyJobAddsWhatTheReplicaKnows(t *testing.T) {
	due := time.Date(2026, 7, 1, 1, 30, 0, 0, time.UTC) // half past two in London
	for name, c := range map[string]struct {
		change func(b *backend)
		at     time.Time
		codes  string
		says   string
	}{
		"decided":     {func(b *backend) { b.triggers[0].ReasonCode = reason.ExitCode }, time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC), "exit_code", "ran as task task-2, which started at"},
		"to come":     {func(b *backend) { b.jobs[0].Cursor = due }, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "due", "2098-07-01 02:30:00 BST in its zone"},
		"no due time": {func(b *backend) { b.jobs[0].Cursor = due.Add(time.Hour) }, due.Add(time.Minute), "not_a_due_time", "the nearest are 2026-07-01 01:30:00 UTC before it and 2026-07-02 01:30:00 UTC after it"},
		"by the definition of then": {func(b *backend) {
			b.jobs[0].Cursor = due.Add(time.Hour)
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: json.RawMessage(`{"schedules":["31 1 * * *"],"timezone":"UTC"}`)}}
		}, due.Add(time.Minute), "no_row", "has no row in the ledger"},
		"spread by the definition of then": {func(b *backend) {
			b.jobs[0].Cursor = due.Add(time.Hour)
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: json.RawMessage(`{"schedules":["30 1 * * *"],"timezone":"UTC","spread":"10m0s"}`)}}
		}, due, "not_a_due_time", "the nearest are"},
		"only the timeout was another": {func(b *backend) { // so its jitter counts
			job := b.set.Jobs["backup"]
			job.Jitter = time.Hour
			b.set.Jobs["backup"], b.jobs[0].Cursor = job, due.Add(time.Hour)
			then := job
			then.Timeout = time.Minute
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: then.Shown()}}
			b.triggers[0].ReasonCode = reason.ExitCode
			b.triggers[0].DecidedAt = b.triggers[0].At.Add(time.Second)
		}, time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC), "exit_code", "ran as task task-2"},
		"other dates of its calendar": {func(b *backend) { // now it is closed at that due time
			job := b.set.Jobs["backup"]
			job.Calendars = jobs.JobCalendars{Exclude: []string{"off"}}
			b.set.Calendars = map[string]jobs.Calendar{"off": {Dates: []string{"2026-07-01"}}}
			b.set.Jobs["backup"], b.jobs[0].Cursor = job, due.Add(time.Hour)
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: job.ShownWithin(map[string]string{"off": "1 date, 0"})}}
		}, due, "no_row", "has no row in the ledger"},
		"the jitter of then is not known": {func(b *backend) {
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: json.RawMessage(`{"schedules":["0 8 * * *"],"timezone":"UTC","jitter":"30s"}`)}}
			b.triggers[0].ReasonCode = reason.ExitCode
			b.triggers[0].DecidedAt = b.triggers[0].At.Add(25 * time.Second)
		}, time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC), "exit_code", "ran as task task-2"},
		"labels": {func(b *backend) {
			job := b.set.Jobs["backup"]
			job.RunsOn = map[string]string{"zone": "b"}
			b.set.Jobs["backup"] = job
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "no_replica due", "zone=b"},
		"a lock": {func(b *backend) {
			job := b.set.Jobs["backup"]
			job.Locks, job.Payload = []jobs.Lock{{Key: "tenant-{{.payload.n}}"}}, map[string]int{"n": 7}
			b.set.Jobs["backup"] = job
			b.locks = []driver.Info{{Key: "user/tenant-7", Token: 5, Owner: "web-1"}}
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "waits_for_lock due", "it needs lock tenant-7, held"},
		"the lock service is away": {func(b *backend) {
			job := b.set.Jobs["backup"]
			job.Locks = []jobs.Lock{{Key: "db"}}
			b.set.Jobs["backup"] = job
			b.lockErr = errors.New("connection refused")
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "lock_service_down due", "connection refused"},
		"resumed against the file": {func(b *backend) {
			job := b.set.Jobs["backup"]
			job.Suspend = true
			b.set.Jobs["backup"], b.jobs[0].Override = job, new(false)
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "due resumed", "'scheduler jobs resume backup --reset'"},
		"resumed against the file then": {func(b *backend) {
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due.Add(time.Hour), Definition: json.RawMessage(`{"schedules":["0 8 * * *"],"timezone":"UTC","suspend":true}`)}}
			b.triggers[0].ReasonCode = reason.ExitCode
		}, time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC), "exit_code resumed", "the definition that governed suspends the job"},
		"suspended by another definition": {func(b *backend) {
			b.jobs[0].Hash = "other"
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Definition: json.RawMessage(`{"schedules":["30 1 * * *"],"timezone":"UTC","suspend":true}`)}}
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "suspended other_config due", "in its definition"},
		"suspended by a definition that has ended": {func(b *backend) {
			b.history = []wire.Definition{{Job: "backup", Hash: "1", Until: due, Definition: json.RawMessage(`{"schedules":["30 1 * * *"],"timezone":"UTC","suspend":true}`)}}
		}, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "due", "nothing is known"},
		"another definition": {func(b *backend) { b.jobs[0].Hash = "other" }, time.Date(2098, 7, 1, 1, 30, 0, 0, time.UTC), "other_config due", "r1, which answers"},
	} {
		b := newBackend()
		b.jobs[0].Hash = b.set.Jobs["backup"].WithDefaults().Hash()
		b.jobs[0].Open = 0
		c.change(b)
		if !strings.HasSuffix(name, "another definition") {
			b.jobs[0].Hash = b.set.Jobs["backup"].WithDefaults().Hash()
		}
		w := ask(t, New(b.backend(), Options{}), "GET", "/api/v1/jobs/backup/why?at="+url.QueryEscape(c.at.Format(time.RFC3339Nano)), "")
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		y := decode[wire.WhyJob](t, w.Body.String())
		if causesOf(y) != c.codes || !strings.Contains(y.Summary+y.Causes[0].Message+y.Causes[len(y.Causes)-1].Message, c.says) || y.Job != "backup" || !y.At.Equal(c.at) || y.ReadAt.IsZero() {
			t.Errorf("%s: %s: %s", name, causesOf(y), w.Body)
		}
		if want, is := map[string]bool{"only the timeout was another": true, "the jitter of then is not known": false}[name]; is && want != (y.Trigger.Late != "") {
			t.Errorf("%s: it is late by %q", name, y.Trigger.Late)
		}
	}
}

// A job without a row is not found, what is no time is refused, a store that does not answer is unavailable.
func TestWhyJobRefusals(t *testing.T) {
	b := newBackend()
	s := New(b.backend(), Options{})
	for path, want := range map[string]int{
		"none/why": http.StatusNotFound, "backup/why?at=x": http.StatusBadRequest, "backup/why?at=1850-01-01T00:00:00Z": http.StatusBadRequest, "backup/why?since=1": http.StatusBadRequest,
		"gone/why": http.StatusOK, "report/why": http.StatusOK, "none/history": http.StatusNotFound, "backup/history": http.StatusOK, "backup/history?limit=0": http.StatusBadRequest,
	} {
		if w := ask(t, s, "GET", "/api/v1/jobs/"+path, ""); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if len(b.changes) > 0 {
		t.Errorf("reads have changed %q", b.changes)
	}
	b.err = jobs.ErrUnavailable
	for _, path := range []string{"backup/why", "backup/history"} {
		if w := ask(t, s, "GET", "/api/v1/jobs/"+path, ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
