package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Of a job with calendars its next due times are those that run, with when they do, and what is left out; wherever they are shown. The time of its row may
// be that of a look at what is left out. The clock stands at Saturday, 1 January 2000.
func TestNextOfAJobWithCalendars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.set.Calendars = map[string]jobs.Calendar{"office": {Weekly: []string{"MON-FRI 09:00-17:00"}}, "never": {}}
		b.set.Jobs["backup"] = jobs.Job{Schedule: "30 2 * * *", Calendars: jobs.JobCalendars{Only: []string{"office"}, Otherwise: jobs.OtherwiseNext}}
		b.set.Jobs["report"] = jobs.Job{Schedule: "30 2 * * *", Calendars: jobs.JobCalendars{Only: []string{"never"}}}
		look := time.Now().Add(150 * time.Minute)
		for i := range b.jobs {
			b.jobs[i].NextAt, b.jobs[i].NextStartAt = look, time.Time{}
		}
		b.next = []ledger.NextDue{{Job: "report", At: look}, {Job: "backup", At: look}, {Job: "other", At: look.Add(time.Hour)}}
		h := b.api(Options{})
		for target, want := range map[string]string{
			"/api/v1/jobs/backup/next?n=2": `{"items":[` +
				`{"at":"2000-01-03T02:30:00Z","local":"2000-01-03T02:30:00Z","runs_at":"2000-01-03T09:00:00Z","left_out":[{"calendar":"office","count":2}],"start_at":"2000-01-03T09:00:00Z"},` +
				`{"at":"2000-01-04T02:30:00Z","local":"2000-01-04T02:30:00Z","runs_at":"2000-01-04T09:00:00Z","start_at":"2000-01-04T09:00:00Z"}]}`,
			"/api/v1/jobs/report/next": `{"items":[]}`,
			"/api/v1/next?limit=2": `{"items":[{"job":"other","at":"2000-01-01T03:30:00Z","local":"2000-01-01T03:30:00Z"},` +
				`{"job":"backup","at":"2000-01-03T02:30:00Z","local":"2000-01-03T02:30:00Z","runs_at":"2000-01-03T09:00:00Z","start_at":"2000-01-03T09:00:00Z"}]}`,
			"/api/v1/next?limit=9&until=2000-01-03T09:00:00Z": `{"items":[{"job":"other","at":"2000-01-01T03:30:00Z","local":"2000-01-01T03:30:00Z"}]}`,
		} {
			if w := ask(t, h, "GET", target, ""); strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("%s: %d %s\nwant %s", target, w.Code, w.Body, want)
			}
		}
		var job wire.Job
		if err := json.Unmarshal(ask(t, h, "GET", "/api/v1/jobs/backup", "").Body.Bytes(), &job); err != nil {
			t.Fatal(err)
		}
		if at := time.Date(2000, 1, 3, 9, 0, 0, 0, time.UTC); !job.NextStartAt.Equal(at) || !job.NextAt.Equal(at.Add(-390*time.Minute)) || job.Calendars.String() != "only in office; else when that ends" {
			t.Errorf("next at %v, calendars %q", job.NextAt, job.Calendars)
		}
		var never wire.Job
		if err := json.Unmarshal(ask(t, h, "GET", "/api/v1/jobs/report", "").Body.Bytes(), &never); err != nil {
			t.Fatal(err)
		}
		if !never.NextAt.IsZero() || never.Calendars == nil || never.Calendars.Otherwise != jobs.OtherwiseSkip {
			t.Errorf("never: next at %v, calendars %+v", never.NextAt, never.Calendars)
		}
	})
}

// Why asks about no look at what calendars leave out: a job that they never let run has no further due time, unless another replica's definition may have one.
func TestWhyOfAJobThatItsCalendarsNeverLetRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.set.Calendars = map[string]jobs.Calendar{"never": {}}
		b.set.Jobs["report"] = jobs.Job{Schedule: "*/5 * * * *", Calendars: jobs.JobCalendars{Only: []string{"never"}}}
		look := time.Now().Add(time.Hour)
		for i := range b.jobs {
			b.jobs[i].NextAt, b.jobs[i].NextStartAt, b.jobs[i].Hash = look, time.Time{}, ""
		}
		h := b.api(Options{})
		y := decode[wire.WhyJob](t, ask(t, h, "GET", "/api/v1/jobs/report/why", "").Body.String())
		if causesOf(y) != "no_further" || !y.At.IsZero() || !strings.HasPrefix(y.Summary, "report has no further due time that its calendars allow: calendar never leaves out the next ones, from 2000-01-01 00:05:00 UTC") {
			t.Errorf("%s at %v: %s", causesOf(y), y.At, y.Summary)
		}
		if y := decode[wire.WhyJob](t, ask(t, h, "GET", "/api/v1/jobs/report/why?at=2000-01-01T00:05:00Z", "").Body.String()); causesOf(y) != "calendar" {
			t.Errorf("of a time that is left out: %s", y.Summary)
		}
		for i := range b.jobs {
			b.jobs[i].Hash = "other"
		}
		if y = decode[wire.WhyJob](t, ask(t, h, "GET", "/api/v1/jobs/report/why", "").Body.String()); !y.At.Equal(look) {
			t.Errorf("of a definition that differs: %v, %s", y.At, y.Summary)
		}
	})
}

// Rows of jobs whose calendars are closed come first, each with a look: the jobs that start before them are found nevertheless, with what their own rows say.
func TestNextWhileCalendarsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.set.Calendars = map[string]jobs.Calendar{"weekend": {Weekly: []string{"SAT,SUN"}}}
		b.next = nil
		for i := range 20 {
			name := fmt.Sprint("closed-", i)
			b.set.Jobs[name] = jobs.Job{Schedule: "* * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}}}
			b.next = append(b.next, ledger.NextDue{Job: name, At: time.Now().Add(time.Minute)})
		}
		b.set.Jobs["report"] = jobs.Job{Schedule: "0 1 * * *", Jitter: time.Hour}
		b.namespace = new("a")
		for i := range b.jobs {
			if b.jobs[i].Name == "report" {
				b.jobs[i].Override = new(true)
			}
		}
		var got struct{ Items []wire.JobDue }
		if err := json.Unmarshal(ask(t, b.api(Options{}), "GET", "/api/v1/next?limit=3", "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		due := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
		if len(got.Items) != 3 || got.Items[0].Job != "report" || !got.Items[0].At.Equal(due) || !got.Items[0].StartAt.After(due) || !got.Items[0].Suspended {
			t.Errorf("next are %+v", got.Items)
		}
	})
}
