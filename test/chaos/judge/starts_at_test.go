package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// The values of docs/schedules.md.
func TestStartsAreThoseOfTheDocs(t *testing.T) {
	for _, c := range []struct {
		namespace, job, due string
		jitter, want        time.Duration
	}{
		{"prod", "nightly-backup", "2026-12-01T02:30:00Z", 30 * time.Second, 1689 * time.Millisecond},
		{"prod", "nightly-backup", "2026-12-01T02:30:00Z", time.Hour, 52*time.Minute + 31689*time.Millisecond},
		{"6f1c2a9b0d3e4f58", "nightly-backup", "2026-12-01T02:30:00Z", 30 * time.Second, 18749 * time.Millisecond},
	} {
		due, err := time.Parse(time.RFC3339, c.due)
		if err != nil {
			t.Fatal(err)
		}
		j := history.Job{Name: c.job, Due: every(24*time.Hour, 150*time.Minute), Jitter: c.jitter}
		judge := newTrial(&history.History{Run: history.Run{Namespace: c.namespace, Jobs: []history.Job{j}}})
		if start, runs := judge.startOf(j, due); !runs || start.Sub(due) != c.want {
			t.Errorf("%+v: %v, %t", c, start.Sub(due), runs)
		}
	}
	for name, want := range map[string]time.Duration{"nightly-backup": 142 * time.Second, "Nightly-Backup": 195 * time.Second, "hourly-mail": 518 * time.Second} {
		if moved := spread(history.Job{Name: name, Due: every(24*time.Hour, 0), Spread: 10 * time.Minute}); moved[0].Offset != want {
			t.Errorf("%s is moved by %v, want %v", name, moved[0].Offset, want)
		}
	}
}

// minutes are calendars of the minutes of two hours, each third of which is "third", and each second one "second".
func minutes() (all []history.Calendar) {
	for name, each := range map[string]int{"second": 2, "third": 3} {
		c := history.Calendar{Name: name}
		for m := 0; m < 120; m += each {
			from := began.Add(time.Duration(m) * time.Minute)
			c.Spans = append(c.Spans, history.Span{From: from, Until: from.Add(time.Minute)})
		}
		all = append(all, c)
	}
	return all
}

// What runs, and when it starts, is what the product says of the same job.
func TestStartsAreThoseOfTheProduct(t *testing.T) {
	calendars := minutes()
	set := jobs.Set{Calendars: map[string]jobs.Calendar{}}
	for _, c := range calendars {
		var lines []string
		for _, s := range c.Spans {
			lines = append(lines, fmt.Sprintf("* %s-%s", s.From.Format("15:04"), s.Until.Format("15:04")))
		}
		set.Calendars[c.Name] = jobs.Calendar{Weekly: lines}
	}
	for _, j := range []history.Job{
		{Name: "plain", Due: every(7*time.Second, 0)},
		{Name: "jittered", Due: every(4*time.Second, 0), Jitter: 3 * time.Second},
		{Name: "spread", Due: every(5*time.Second, 0), Spread: time.Minute},
		{Name: "both", Due: every(10*time.Second, 0), Spread: time.Hour, Jitter: 9 * time.Second},
		{Name: "excludes", Due: every(7*time.Second, 0), Exclude: []string{"second"}},
		{Name: "excludes-two", Due: every(7*time.Second, 0), Exclude: []string{"second", "third"}, Jitter: 2 * time.Second},
		{Name: "keeps", Due: every(7*time.Second, 0), Only: []string{"second"}},
		{Name: "next", Due: every(7*time.Second, 0), Exclude: []string{"second"}, Next: true},
		{Name: "next-at-the-end", Due: every(20*time.Second, 0), Exclude: []string{"third"}, Next: true},
		{Name: "next-of-two", Due: every(11*time.Second, 0), Exclude: []string{"third"}, Only: []string{"second"}, Next: true, Jitter: time.Second},
	} {
		t.Run(j.Name, func(t *testing.T) {
			of := jobs.Job{
				Schedule: fmt.Sprintf("@every %v", j.Due[0].Period), Jitter: j.Jitter, Spread: j.Spread,
				Calendars: jobs.JobCalendars{Exclude: j.Exclude, Only: j.Only}, Handler: nil,
			}
			if j.Next {
				of.Calendars.Otherwise = jobs.OtherwiseNext
			}
			schedule, err := set.Compiler().Compile(j.Name, of)
			if err != nil {
				t.Fatal(err)
			}
			judge := newTrial(&history.History{Run: history.Run{Namespace: "prod", Calendars: calendars, Jobs: []history.Job{j}}})
			j := judge.jobs[j.Name]
			starts := of.Starts(schedule, j.Name, "prod")
			ran := 0
			for due := dueNext(j.Due, began); due.Before(began.Add(100 * time.Minute)); due = dueNext(j.Due, due) {
				start, runs := judge.startOf(j, due)
				if says := schedule.Next(due.Add(-1)).Equal(due); says != runs {
					t.Fatalf("%v runs: %t, and the product says %t", due, runs, says)
				}
				if runs && !starts.Of(due).Equal(start) {
					t.Fatalf("%v starts at %v, and the product says %v", due, start, starts.Of(due))
				}
				if runs {
					ran++
				}
			}
			if ran < 20 {
				t.Errorf("only %d runs", ran)
			}
		})
	}
}

// Rows of due times that calendars leave out have all of them, no others, and a true reason.
func TestLeftOut(t *testing.T) {
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	row := func(from, to int, code, reason string) history.Row {
		r := history.Row{Job: "j", At: at(from).UnixMicro(), Code: code, Reason: reason, Outcome: "skipped"}
		if to > from {
			r.Until = at(to).UnixMicro()
		}
		return r
	}
	skips := history.Job{Name: "j", Due: every(7*time.Second, 0), Exclude: []string{"second"}} // minutes 0 and 2 are closed
	keeps := history.Job{Name: "j", Due: every(7*time.Second, 0), Only: []string{"second"}}    // minute 1 is closed
	next := skips
	next.Next = true
	first := int(dueNext(skips.Due, began).Sub(began) / time.Second) // within the first minute
	last := first + (59-first)/7*7
	after := last + 7
	stands := "; the run of " + at(last).Format(time.RFC3339) + " stands for it"
	for name, c := range map[string]struct {
		job  history.Job
		row  history.Row
		want string
	}{
		"all of a closure":              {skips, row(first, last, codeCalendar, "calendar second excludes it"), ""},
		"one more":                      {skips, row(first, after, codeCalendar, "calendar second excludes it"), "is not"},
		"not by a calendar":             {skips, row(first, first, "suspended", "suspended"), "is left out by a calendar"},
		"a stretch with some":           {skips, row(after, after+70, "suspended", "suspended"), "is left out by a calendar"},
		"what is allowed":               {skips, row(after, after, "slot_taken", "x"), ""},
		"of a calendar it does not see": {skips, row(first, first, codeCalendar, "calendar third excludes it"), "names no calendar of the job"},
		"of no calendar":                {skips, row(first, first, codeCalendar, "excluded"), "names no calendar of the job"},
		"outside":                       {keeps, row(after, after, codeCalendar, "outside of calendar second"), ""},
		"outside, and excluded":         {keeps, row(after, after, codeCalendar, "calendar second excludes it"), "names no calendar of the job"},
		"one stands for it":             {next, row(first, last-7, codeCalendar, "calendar second excludes it"+stands), ""},
		"the one that stands for it":    {next, row(first, last, codeCalendar, "calendar second excludes it"+stands), "is not"},
		"nothing stands for it":         {next, row(first, last-7, codeCalendar, "calendar second excludes it"), "does not say what runs"},
		"another one stands for it":     {next, row(first, last-7, codeCalendar, "calendar second excludes it; the run of "+at(after).Format(time.RFC3339)+" stands for it"), "not what runs for the closure"},
		"stands where all are skipped":  {skips, row(first, last, codeCalendar, "calendar second excludes it"+stands), "does not say what runs"},
	} {
		t.Run(name, func(t *testing.T) {
			judge := newTrial(&history.History{Run: history.Run{Calendars: minutes(), Jobs: []history.Job{c.job}}})
			got := judge.byCalendars(c.job, c.row, dbTime(c.row.At), maxTime(dbTime(c.row.At), dbTime(c.row.Until)))
			if got == "" && c.row.Code == codeCalendar {
				got = judge.leftOut(c.row, c.job)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
