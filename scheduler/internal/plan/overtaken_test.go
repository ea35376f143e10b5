package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// An edit leaves no due time of the old schedule without a row. Calendars are those of the old definition, where they still have its times.
func TestOvertaken(t *testing.T) {
	yes := true
	nights := jobs.Calendar{Weekly: []string{"* 22:00-24:00"}}
	from := time.Date(2026, 11, 2, 20, 30, 0, 0, time.UTC) // a Monday
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 2, hour, minute, 0, 0, time.UTC) }
	closed := func(otherwise jobs.Otherwise) jobs.Job {
		return jobs.Job{Schedule: "0 * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"nights"}, Otherwise: otherwise}}
	}
	suspended := jobs.Job{Schedule: "0 * * * *", Suspend: true}
	for what, c := range map[string]struct {
		was  jobs.Job
		is   jobs.Calendar // nights, after the edit
		of   ledger.Overtaken
		want string
	}{
		"nothing was due": {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(20, 59)}, ""},
		"one":             {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(21, 0)}, "21:00 missed schedule_changed"},
		"several":         {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(23, 30)}, "21:00-23:00 x3 missed schedule_changed"},
		"removed":         {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(23, 30), Removed: true}, "21:00-23:00 x3 missed job_removed"},
		"one that was to start later": {jobs.Job{Schedule: "0 * * * *", Jitter: 30 * time.Minute}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(21, 0)},
			"21:00 missed schedule_changed"},
		"suspended":                {suspended, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30)}, "21:00-22:00 x2 skipped suspended"},
		"suspended, and again not": {suspended, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30), Suspension: ledger.Suspension{Suspended: new(bool)}}, "21:00-22:00 x2 missed schedule_changed"},
		"suspended by hand":        {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30), Suspension: ledger.Suspension{Suspended: &yes}}, "21:00-22:00 x2 skipped suspended"},
		"suspended by hand until": {suspended, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30), Suspension: ledger.Suspension{Suspended: &yes, Until: at(23, 0)}},
			"21:00-22:00 x2 missed schedule_changed"},
		"suspended by hand until before": {jobs.Job{Schedule: "0 * * * *"}, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30), Suspension: ledger.Suspension{Suspended: &yes, Until: at(21, 30)}},
			"21:00-22:00 x2 missed schedule_changed"},
		"suspended by hand until before, and by the file": {suspended, nights, ledger.Overtaken{Due: at(21, 0), Now: at(22, 30), Suspension: ledger.Suspension{Suspended: &yes, Until: at(21, 30)}},
			"21:00-22:00 x2 skipped suspended"},
		"outside": {jobs.Job{Schedule: "0 * * * *", Calendars: jobs.JobCalendars{Only: []string{"nights"}}}, nights, ledger.Overtaken{Due: at(22, 0), Now: at(22, 30)},
			"21:00 skipped calendar outside of it, 22:00 missed schedule_changed"},
		"left out":              {closed(""), nights, ledger.Overtaken{Due: at(24, 0), Now: at(23, 30)}, "21:00 missed schedule_changed, 22:00-23:00 x2 skipped calendar excludes it"},
		"left out, and removed": {closed(""), nights, ledger.Overtaken{Due: at(24, 0), Now: at(22, 30), Removed: true}, "21:00 missed job_removed, 22:00 skipped calendar excludes it"},
		"left out, and after":   {closed(""), nights, ledger.Overtaken{Due: at(24, 0), Now: at(25, 30)}, "21:00 missed schedule_changed, 22:00-23:00 x2 skipped calendar excludes it, 00:00-01:00 x2 missed schedule_changed"},
		"its run comes no more": {closed(jobs.OtherwiseNext), nights, ledger.Overtaken{Due: at(24, 0), Now: at(23, 30)}, "21:00-23:00 x3 missed schedule_changed"},
		"its run was due": {closed(jobs.OtherwiseNext), nights, ledger.Overtaken{Due: at(24, 0), Now: at(24, 30)},
			"21:00 missed schedule_changed, 22:00-23:00 x2 skipped calendar excludes it; the run of 2026-11-03T00:00:00Z stands for it, 00:00 missed schedule_changed"},
		"of another calendar":                {closed(""), jobs.Calendar{}, ledger.Overtaken{Due: at(24, 0), Cursor: at(21, 0), Now: at(23, 30)}, "22:00-23:00 x2 skipped calendar had left it out: nights"},
		"of another calendar, and one ran":   {closed(""), jobs.Calendar{}, ledger.Overtaken{Due: at(21, 0), Now: at(23, 30)}, "21:00-23:00 x3 missed schedule_changed"},
		"of another calendar, nothing to be": {closed(""), jobs.Calendar{}, ledger.Overtaken{Cursor: at(21, 0), Now: at(23, 30)}, "22:00-23:00 x2 skipped calendar had left it out: nights"},
		"of another calendar, its run":       {closed(jobs.OtherwiseNext), jobs.Calendar{}, ledger.Overtaken{Due: at(24, 0), Cursor: at(21, 0), Now: at(23, 30)}, "22:00-23:00 x2 missed schedule_changed"},
		"at its name":                        {jobs.Job{Schedule: "H * * * *"}, nights, ledger.Overtaken{Due: at(20, 54), Now: at(21, 53)}, "20:54 missed schedule_changed"},
		"its end": {jobs.Job{Schedule: "@at 2026-11-02T21:00:00Z", Calendars: jobs.JobCalendars{Exclude: []string{"nights"}}}, nights,
			ledger.Overtaken{Cursor: at(21, 0), Now: at(23, 59)}, ""},
		"on demand": {jobs.Job{}, nights, ledger.Overtaken{Now: at(21, 59)}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			c.was.Handler = replicatest.Nothing{}
			former := jobs.Set{Jobs: map[string]jobs.Job{"j": c.was}, Calendars: map[string]jobs.Calendar{"nights": nights}}
			was := must(t, former)
			set := jobs.Set{Calendars: map[string]jobs.Calendar{"nights": c.is}}
			if len(c.is.Weekly) == 0 {
				set.Calendars = nil
			}
			c.of.Job, c.of.Definition = "j", was.Definitions().Shown("j")
			if c.of.Cursor.IsZero() {
				c.of.Cursor = from
			}
			if got := rowsText(must(t, set).Definitions().Overtaken(c.of)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	// What is not known is one row, and says so.
	d := must(t, jobs.Set{}).Definitions()
	for _, text := range []string{"", "{", `{"schedules": ["never"]}`, `{"schedules": ["0 * * * *"], "timezone": "Mars/Base"}`} {
		of := ledger.Overtaken{Job: "j", Definition: json.RawMessage(text), Cursor: from, Due: at(21, 0), Now: at(23, 30)}
		if got := rowsText(d.Overtaken(of)); got != "21:00 missed schedule_changed, and what else was due until then" {
			t.Errorf("%q: %s", text, got)
		}
		of.Due = at(24, 0)
		if got := d.Overtaken(of); len(got) > 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}

	// Many stretches are few rows, and all are counted.
	long := closed("")
	long.Handler = replicatest.Nothing{}
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": long}, Calendars: map[string]jobs.Calendar{"nights": nights}}
	d = must(t, set).Definitions()
	rows := d.Overtaken(ledger.Overtaken{Job: "j", Definition: d.Shown("j"), Cursor: from, Due: at(21, 0), Now: from.AddDate(2, 0, 0)})
	count, last := 0, from
	for _, g := range rows {
		if !g.At.After(last) {
			t.Fatalf("%v after %v", g.At, last)
		}
		count, last = count+g.Count, g.At
		if !g.Until.IsZero() {
			last = g.Until
		}
	}
	if want := 24 * 731; count != want || len(rows) > 2*mostOvertaken+1 {
		t.Errorf("%d due times in %d rows, want %d", count, len(rows), want)
	}
}

func must(t *testing.T, set jobs.Set) *Plan {
	t.Helper()
	p, err := New(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rowsText(rows []jobs.Trigger) string {
	var all []string
	for _, g := range rows {
		text := g.At.UTC().Format("15:04")
		if g.Count > 1 {
			text += fmt.Sprintf("-%s x%d", g.Until.UTC().Format("15:04"), g.Count)
		}
		text += " " + string(g.Outcome) + " " + string(g.ReasonCode)
		switch {
		case strings.Contains(g.Reason, "had left"):
			text += g.Reason[strings.Index(g.Reason, " had left"):]
		case strings.Contains(g.Reason, "excludes"):
			text += g.Reason[strings.Index(g.Reason, " excludes"):]
		case g.Reason == "outside of calendar nights":
			text += " outside of it"
		case strings.Contains(g.Reason, ", and what"):
			text += g.Reason[strings.Index(g.Reason, ", and what"):]
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
