package foresight

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What is shown of a definition says when it is due, if its calendars have the times that are known; other dates in a calendar are other times.
func TestShown(t *testing.T) {
	set := jobs.Set{Calendars: map[string]jobs.Calendar{"off": {Dates: []string{"2026-12-25"}}}, Jobs: map[string]jobs.Job{
		"j": {Schedules: []string{"30 2 * * *", "@hourly"}, Timezone: "Europe/London", Spread: 600e9, Suspend: true, Calendars: jobs.JobCalendars{Exclude: []string{"off"}, Otherwise: jobs.OtherwiseNext}},
	}}
	calendars := set.Compiler().Calendars()
	j := set.Jobs["j"]
	read := func(j jobs.Job, calendars map[string]string) Shown {
		t.Helper()
		s, err := ReadShown(j.ShownWithin(calendars))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	is := read(j, calendars)
	if job := is.Job(); !is.Within(calendars) || job.ScheduleHash() != j.ScheduleHash() || !job.Suspend {
		t.Errorf("%+v", is)
	}
	others := map[string]string{"off": "1 date, 0"}
	for name, other := range map[string]map[string]string{"other times": others, "no such calendar": nil} {
		if is.Within(other) {
			t.Errorf("%s: its due times are known", name)
		}
	}
	if read(j, nil).Within(calendars) {
		t.Error("of an older program its due times are known")
	}
	resumed, later := j, j
	resumed.Suspend, resumed.Timeout, later.Jitter = false, 1e9, 1e9
	for name, c := range map[string]struct {
		as   Shown
		same bool
	}{"itself": {is, true}, "not suspended": {read(resumed, calendars), true}, "jitter": {read(later, calendars), false}, "other dates": {read(j, others), false}} {
		if is.SameTimes(c.as) != c.same {
			t.Errorf("%s: the same times %t", name, !c.same)
		}
	}
	for _, definition := range []string{`{"spread":1.5}`, `{}`, ` { } `, `null`, `7`, ``} {
		if _, err := ReadShown([]byte(definition)); err == nil {
			t.Errorf("%s is read", definition)
		}
	}
}
