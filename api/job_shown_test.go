package api

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// told is a handler that says what it is.
type told string

func (told) Run(context.Context, jobs.Task, io.Writer) error { return nil }
func (h told) Describe() string                              { return string(h) }

// TestEveryFieldOfAJobIsAnswered: whatever a definition says is in the answer for the job, so each field without its value has another answer.
func TestEveryFieldOfAJobIsAnswered(t *testing.T) {
	whole := jobs.Job{
		Description: "d", Schedule: "@daily", Schedules: []string{"@hourly"}, Timezone: "Europe/London",
		StartsAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), EndsAt: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
		Calendars: jobs.JobCalendars{Exclude: []string{"off"}, Only: []string{"on"}, Otherwise: jobs.OtherwiseNext}, Spread: time.Minute, Jitter: time.Second,
		Pool: "mail", Handler: told("own"), Kind: "welcome", Payload: map[string]int{"n": 1}, Params: map[string]any{"type": "object"},
		Timeout: time.Hour, Concurrency: jobs.Queue, MaxRunning: 3, QueueLimit: 4, OnLost: jobs.LostRetries, LostLimit: 7,
		CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll, Window: time.Hour, Limit: 3, Grace: time.Minute},
		Retries: jobs.Retries{Limit: 2, Backoff: time.Minute, MaxBackoff: time.Hour, On: []int{1, 75}}, Priority: 5,
		RunsOn: map[string]string{"zone": "a"}, Suspend: true, Output: jobs.Output{Keep: 2048, File: "f", FileSize: 8192, Files: 2}, Labels: map[string]string{"team": "a"},
		Notify: jobs.Notify{On: []jobs.Event{jobs.EventLost}, Handler: told("tells")}, Expect: jobs.Expect{StartWithin: time.Minute, FinishWithin: time.Hour},
		SuspendAfter: 5, Locks: []jobs.Lock{{Key: "db", Mode: jobs.LockExclusive, Limit: 3, OnLost: jobs.LockContinues}}, LockWait: time.Minute,
	}
	answer := func(job jobs.Job) string {
		b := newBackend()
		b.set.Jobs["report"] = job
		b.set.Calendars = map[string]jobs.Calendar{"off": {}, "on": {}}
		w := ask(t, b.api(Options{}), "GET", "/api/v1/jobs/report", "")
		if w.Code != 200 || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	all, fields := answer(whole), 0
	var walk func(at reflect.Value, name string)
	walk = func(at reflect.Value, name string) {
		if at.Kind() == reflect.Slice && at.Len() == 1 && at.Index(0).Kind() == reflect.Struct {
			walk(at.Index(0), name)
		}
		if at.Kind() == reflect.Struct && at.Type() != reflect.TypeFor[time.Time]() {
			for i := range at.NumField() {
				walk(at.Field(i), name+"."+at.Type().Field(i).Name)
			}
			return
		}
		fields++
		was := reflect.New(at.Type()).Elem()
		was.Set(at)
		if was.IsZero() {
			t.Errorf("the job of this test has no %s", name)
		}
		at.SetZero()
		if name != ".Locks.Mode" && answer(whole) == all { // beside a limit the other mode is not valid
			t.Errorf("a job without its %s has the same answer: %s", name, all)
		}
		at.Set(was)
	}
	walk(reflect.ValueOf(&whole).Elem(), "")
	if fields < 45 {
		t.Errorf("only %d fields were tried", fields)
	}
	if answer(whole) != all {
		t.Error("the job is not as it was")
	}
}

// TestDefaultsOfAJobAreAnswered: policies are as they hold, the pool's locks among them, and a large payload is its size.
func TestDefaultsOfAJobAreAnswered(t *testing.T) {
	b := newBackend()
	b.set.Pools["mail"] = jobs.Pool{Handler: told("sends"), Locks: []jobs.Lock{{Key: "relay", Mode: jobs.LockShared}}, LockWait: time.Hour}
	b.set.Jobs["report"] = jobs.Job{Pool: "mail", Payload: string(make([]byte, 400)), Notify: jobs.Notify{Handler: told("tells")}}
	const want = `{"name":"report","timezone":"UTC","pool":"mail","handler":"sends","timeout":"24h0m0s","concurrency":"forbid","on_lost":"fail",` +
		`"catch_up":{"policy":"latest","window":"24h0m0s","grace":"10s"},"locks":[{"key":"relay","mode":"shared","on_lost":"cancel"}],"lock_wait":"1h0m0s",` +
		`"notify":{"on":["failed","missed","lost","recovered","suspended"],"handler":"tells"},"payload_size":2402,"suspended":false,"open":0,`
	if got := ask(t, b.api(Options{}), "GET", "/api/v1/jobs/report", "").Body.String(); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
