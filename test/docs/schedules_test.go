package docs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var scheduleRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$")

// The tables of docs/schedules.md say when expressions are due. Package jobs has the tests that cron agrees with them.
func TestSchedulesAreDueAsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/schedules.md"))
	if err != nil {
		t.Fatal(err)
	}
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	date := func(zone *time.Location, month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, zone)
	}
	dueBetween := func(job jobs.Job, name string, from, until time.Time, zone *time.Location, layout string) string {
		t.Helper()
		s, err := job.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		due, _ := s.Between(from.Add(-time.Second), until.Add(-time.Second), 1000)
		for _, at := range due {
			words = append(words, at.In(zone).Format(layout))
		}
		switch {
		case len(words) == 0:
			return "none"
		case layout == "2" && len(words) == 30:
			return "every"
		}
		return strings.Join(words, " ")
	}
	calendars := map[string]jobs.Calendar{}
	duration := func(text string) time.Duration {
		t.Helper()
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	checked := map[string]int{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, row := range scheduleRow.FindAllStringSubmatch(section, -1) {
			first, cells := row[1], strings.Split(row[2], "|")
			for i := range cells {
				cells[i] = strings.Trim(cells[i], " `")
			}
			job := jobs.Job{Schedule: first}
			expression := len(strings.Fields(first)) == 5
			wants := func(what, got, want string) {
				checked[heading]++
				if got != want {
					t.Errorf("%s: `%s`, %s: %s, and the page says %s", heading, first, what, got, want)
				}
			}
			switch {
			case expression && (heading == "Expressions" || heading == "The two day fields"):
				wants("June", dueBetween(job, "", date(time.UTC, 6, 1, 0), date(time.UTC, 7, 1, 0), time.UTC, "2"), cells[0])
			case expression && heading == "When clocks jump":
				job.Timezone = "America/New_York"
				for i, day := range []time.Time{date(newYork, 3, 8, 1), date(newYork, 11, 1, 1)} {
					wants(day.Format("2 January"), dueBetween(job, "", day, date(newYork, day.Month(), day.Day(), 4), newYork, "3:04MST"), cells[i])
				}
			case heading == "Calendars" && expression:
				wants(cells[0], dueWithin(t, calendars, job, cells[0]), cells[1]+" | "+cells[2])
			case heading == "Calendars" && (strings.HasPrefix(cells[0], "dates: [") || strings.HasPrefix(cells[0], "weekly: [") || cells[0] == "nothing"):
				calendars[first] = calendarOf(t, cells[0])
			case heading == "Spread" && len(cells) == 2:
				job = jobs.Job{Schedule: "0 0 * * *", Spread: duration(cells[0])}
				wants(cells[0], dueBetween(job, first, date(time.UTC, 6, 1, 0), date(time.UTC, 6, 2, 0), time.UTC, "15:04:05"), cells[1])
			case heading == "Spread" && len(cells) == 3:
				job.Timezone, job.Spread = "America/New_York", 10*time.Minute
				for i, day := range []time.Time{date(newYork, 3, 8, 1), date(newYork, 11, 1, 1)} {
					wants(day.Format("2 January"), dueBetween(job, "nightly-backup", day, date(newYork, day.Month(), day.Day(), 4), newYork, "3:04:05MST"), cells[i])
				}
			case heading == "Jitter" && len(cells) == 4:
				due, err := time.Parse(time.RFC3339, cells[1])
				if err != nil {
					t.Fatal(err)
				}
				job = jobs.Job{Schedule: "30 2 * * *", Jitter: duration(cells[2])}
				times, err := job.Compile(first)
				if err != nil {
					t.Fatal(err)
				}
				wants(cells[1], job.Starts(times, first, cells[0]).Of(due).Sub(due).String(), cells[3])
			case heading == "Jitter" && strings.Contains(first, " "):
				job.Handler = jobs.HandlerFunc(func(context.Context, jobs.Task, io.Writer) error { return nil })
				takes := func(jitter time.Duration) bool {
					job.Jitter = jitter
					return jobs.Set{Jobs: map[string]jobs.Job{"j": job}}.Validate() == nil
				}
				limit := 366 * 24 * time.Hour
				if cells[0] != "any" {
					limit = duration(cells[0])
				}
				wants("the longest jitter", fmt.Sprint(takes(limit-time.Millisecond), takes(limit)), fmt.Sprint(true, cells[0] == "any"))
			case heading == "Hashed values" && len(cells) > 1:
				// The numbers, written out, are due when H is.
				job = jobs.Job{Schedules: []string{"@yearly", "H H H H H H"}}
				if cells[0] == "0" {
					job.Schedules = job.Schedules[1:]
				}
				numbers := jobs.Job{Schedules: append(job.Schedules[:len(job.Schedules)-1:len(job.Schedules)-1], cells[1])}
				from := date(time.UTC, 1, 1, 0)
				const layout = time.RFC3339
				wants("place "+cells[0], dueBetween(job, first, from, from.AddDate(10, 0, 0), time.UTC, layout), dueBetween(numbers, "", from, from.AddDate(10, 0, 0), time.UTC, layout))
			}
		}
	}
	for heading, rows := range map[string]int{"Expressions": 14, "The two day fields": 11, "When clocks jump": 20, "Hashed values": 4, "Calendars": 10, "Spread": 14, "Jitter": 13} {
		if checked[heading] != rows {
			t.Errorf("%s: %d cells were checked, want %d", heading, checked[heading], rows)
		}
	}
}

// calendarOf reads a calendar, or the calendars of a job, as the page writes them.
func calendarOf(t *testing.T, text string) jobs.Calendar {
	t.Helper()
	var c struct{ Dates, Weekly []string }
	if text != "nothing" {
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
	}
	return jobs.Calendar{Dates: c.Dates, Weekly: c.Weekly}
}

// dueWithin is what a job with these calendars is due at in the last days of 2026, and when that runs, as the page writes it.
func dueWithin(t *testing.T, all map[string]jobs.Calendar, job jobs.Job, calendars string) string {
	t.Helper()
	if err := yaml.Unmarshal([]byte(calendars), &job.Calendars); err != nil {
		t.Fatal(err)
	}
	job.Handler = jobs.HandlerFunc(nil)
	set := jobs.Set{Calendars: all, Jobs: map[string]jobs.Job{"j": job}}
	s, err := set.Compiler().Compile("j", job)
	if err != nil {
		t.Fatal(err)
	}
	const layout = "2 15:04"
	write := func(at time.Time) string { return strings.Replace(at.Format(layout), " 0", " ", 1) }
	from := time.Date(2026, time.December, 24, 0, 0, 0, 0, time.UTC)
	due, _ := s.Between(from.Add(-time.Second), from.AddDate(0, 0, 6).Add(-time.Second), 100)
	var at, runs []string
	for _, t := range due {
		at = append(at, write(t))
		if fires := s.Fires(t); fires.After(t) {
			runs = append(runs, write(t)+" at "+write(fires))
		}
	}
	switch {
	case len(at) == 0:
		return "none | "
	case len(runs) == 0:
		runs = []string{"at once"}
	}
	return strings.Join(at, ", ") + " | " + strings.Join(runs, ", ")
}
