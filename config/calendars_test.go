package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const christmas = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:20261228\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

// The example of docs/schedules.md, with a file of events in the folder of the configuration.
func TestCalendars(t *testing.T) {
	page, err := os.ReadFile("../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Calendars\n")
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(section)
	if example == nil {
		t.Fatal("docs/schedules.md has no example of calendars")
	}
	folder := t.TempDir()
	main := write(t, folder, "lockstep.yaml", example[1], 0o600)
	write(t, folder, "holidays.ics", christmas, 0o600)
	var opened []string
	watched := options
	watched.Opened = func(path string, _ []byte) { opened = append(opened, path) }
	c, err := config.Load(main, watched)
	if err != nil {
		t.Fatal(err)
	}
	if file := filepath.Join(folder, "holidays.ics"); !slices.Contains(opened, file) {
		t.Errorf("the watch of the configuration does not know %s, but %v", file, opened)
	}
	want := map[string]jobs.Calendar{
		"holidays": {Dates: []string{"2026-12-25", "2026-12-26"}, ICS: christmas, Timezone: "Europe/London"},
		"office":   {Weekly: []string{"MON-FRI 09:00-17:00", "SAT 10:00-14:00"}, Timezone: "Europe/London"},
	}
	if diff := cmp.Diff(want, c.Set.Calendars); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	due := func(name, from string, days int) (n int) {
		t.Helper()
		s, err := c.Set.Compiler().Compile(name, c.Set.Jobs[name])
		if err != nil {
			t.Fatal(err)
		}
		start, err := time.Parse(time.DateOnly, from)
		if err != nil {
			t.Fatal(err)
		}
		n, _ = s.CountBetween(start, start.AddDate(0, 0, days))
		return n
	}
	for what, pair := range map[string][2]int{
		"24 December": {due("reminders", "2026-12-24", 1), 8 * 4},
		"25 December": {due("reminders", "2026-12-25", 1), 0},
		"a Saturday":  {due("reminders", "2026-12-19", 1), 4 * 4},
		"its event":   {due("reminders", "2026-12-28", 1), 0},
		"reports":     {due("report", "2026-12-25", 4), 3}, // of 25 and 26 one
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d due times, want %d", what, pair[0], pair[1])
		}
	}
}

// Defaults merge key by key, one weekly entry needs no list, and [] is none.
func TestCalendarsOfDefaults(t *testing.T) {
	c, err := config.LoadBytes("lockstep.yaml", []byte(`
version: 1
calendars: {a: {weekly: MON, timezone: "${ZONE:-Asia/Tokyo}"}, b: {dates: ["2026-01-01"]}, c: }
defaults: {calendars: {exclude: [a], otherwise: next}}
jobs:
  one: {command: [echo]}
  two: {command: [echo], calendars: {exclude: [], only: [b]}}
  three: {command: [echo], calendars: {otherwise: skip}}
`), options)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]jobs.JobCalendars{}
	for name, job := range c.Set.Jobs {
		got[name] = job.Calendars
	}
	want := map[string]jobs.JobCalendars{
		"one":   {Exclude: []string{"a"}, Otherwise: jobs.OtherwiseNext},
		"two":   {Exclude: []string{}, Only: []string{"b"}, Otherwise: jobs.OtherwiseNext},
		"three": {Exclude: []string{"a"}, Otherwise: jobs.OtherwiseSkip},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if a := c.Set.Calendars["a"]; len(a.Weekly) != 1 || a.Timezone != "Asia/Tokyo" || len(c.Set.Calendars) != 3 {
		t.Errorf("calendars %+v", c.Set.Calendars)
	}
}

// A job that never runs is a warning, at its calendars.
func TestAJobThatNeverRuns(t *testing.T) {
	c, err := config.LoadBytes("lockstep.yaml", []byte(`version: 1
calendars: {past: {dates: [2020-12-25]}}
jobs:
  never: {command: [echo], schedule: "@hourly", calendars: {only: [past]}}
  always: {command: [echo], schedule: "@hourly", calendars: {exclude: [past]}}
`), options)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), "lockstep.yaml:4:60: jobs.never.calendars: no due time of its schedule is allowed by its calendars") {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

// A file that others can change is refused, as the configuration would be; and one that is too large.
func TestCalendarFilesAreTrusted(t *testing.T) {
	folder := t.TempDir()
	main := write(t, folder, "lockstep.yaml", "version: 1\ncalendars: {a: {ics: a.ics}}\njobs: {x: {command: [echo]}}\n", 0o600)
	write(t, folder, "a.ics", christmas, 0o666)
	if _, err := config.Load(main, options); err == nil || !strings.Contains(err.Error(), "lockstep.yaml:2:22: calendars.a.ics: "+filepath.Join(folder, "a.ics")+": can be written by others") {
		t.Error(err)
	}
	write(t, folder, "a.ics", christmas+strings.Repeat(" ", 1<<20), 0o600)
	if _, err := config.Load(main, options); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Error(err)
	}
}
