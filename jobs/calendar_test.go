package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// within compiles a job of a set with these calendars.
func within(t *testing.T, job Job, all map[string]Calendar) *Schedule {
	t.Helper()
	set := Set{Calendars: all, Jobs: map[string]Job{"j": job}}
	if err := set.validCalendars(); err != nil {
		t.Fatal(err)
	}
	s, err := set.Compiler().Compile("j", job)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// on formats due times after monday, 2 March 2026, as "Mon 02:30".
func on(s *Schedule, days int) string {
	from := monday
	due, _ := s.Between(from.Add(-time.Nanosecond), from.AddDate(0, 0, days).Add(-time.Nanosecond), 1000)
	var words []string
	for _, at := range due {
		word := at.Format("Mon 15:04")
		if fires := s.Fires(at); !fires.Equal(at) {
			word += " at " + fires.Format("Mon 15:04")
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

var office = map[string]Calendar{
	"office": {Weekly: []string{"MON-FRI 09:00-17:00"}},
	"lunch":  {Weekly: []string{"* 12:00-13:00"}},
	"night":  {Weekly: []string{"* 22:00-06:00"}},
	"wed":    {Dates: []string{monday.AddDate(0, 0, 2).Format(time.DateOnly)}},
	"thu":    {Weekly: []string{"THU"}},
	"late":   {Weekly: []string{"MON-TUE 22:00-24:00"}},
	"whole":  {Weekly: []string{"TUE 00:00-24:00"}},
	"none":   {},
	"all":    {Weekly: []string{"*"}},
}

// The oracle of TestCalendarsAgreeWithAWatchedClock, by hand.
func TestWhatCalendarsAllow(t *testing.T) {
	if monday.Weekday() != time.Monday || monday.Hour() != 0 {
		t.Fatal(monday)
	}
	for _, c := range []struct {
		spec      string
		calendars JobCalendars
		want      string
	}{
		{"30 2 * * *", JobCalendars{Exclude: []string{"wed"}}, "Mon 02:30, Tue 02:30, Thu 02:30, Fri 02:30"},
		{"30 2 * * *", JobCalendars{Exclude: []string{"wed"}, Otherwise: OtherwiseNext}, "Mon 02:30, Tue 02:30, Wed 02:30 at Thu 00:00, Thu 02:30, Fri 02:30"},
		{"30 2 * * *", JobCalendars{Exclude: []string{"wed", "thu"}, Otherwise: OtherwiseNext}, "Mon 02:30, Tue 02:30, Thu 02:30 at Fri 00:00, Fri 02:30"},
		{"0 0,12 * * *", JobCalendars{Exclude: []string{"wed", "thu"}, Otherwise: OtherwiseNext}, "Mon 00:00, Mon 12:00, Tue 00:00, Tue 12:00, Fri 00:00, Fri 12:00"},
		{"0 8,12,17 * * *", JobCalendars{Only: []string{"office"}}, "Mon 12:00, Tue 12:00, Wed 12:00, Thu 12:00, Fri 12:00"},
		{"0 8,12,17 * * *", JobCalendars{Only: []string{"office"}, Exclude: []string{"lunch", "wed"}, Otherwise: OtherwiseNext}, "Mon 08:00 at Mon 09:00, Mon 12:00 at Mon 13:00, Tue 08:00 at Tue 09:00, Tue 12:00 at Tue 13:00, Thu 08:00 at Thu 09:00, Thu 12:00 at Thu 13:00, Fri 08:00 at Fri 09:00, Fri 12:00 at Fri 13:00"},
		{"0 12 * * *", JobCalendars{Only: []string{"office", "thu"}}, "Thu 12:00"},
		{"0 23 * * *", JobCalendars{Exclude: []string{"night"}}, ""},
		{"0 5,6,22 * * *", JobCalendars{Exclude: []string{"night"}}, "Mon 06:00, Tue 06:00, Wed 06:00, Thu 06:00, Fri 06:00"},
		{"0 5 * * *", JobCalendars{Only: []string{"night"}}, "Mon 05:00, Tue 05:00, Wed 05:00, Thu 05:00, Fri 05:00"},
		{"0 5 * * *", JobCalendars{Exclude: []string{"none"}, Only: []string{"all"}}, "Mon 05:00, Tue 05:00, Wed 05:00, Thu 05:00, Fri 05:00"},
		{"0 5 * * *", JobCalendars{Only: []string{"none"}}, ""},
		{"0,30 21-23 * * *", JobCalendars{Only: []string{"late"}}, "Mon 22:00, Mon 22:30, Mon 23:00, Mon 23:30, Tue 22:00, Tue 22:30, Tue 23:00, Tue 23:30"},
		{"0 0,12 * * *", JobCalendars{Only: []string{"whole"}}, "Tue 00:00, Tue 12:00"},
		{"0 5 * * *", JobCalendars{Exclude: []string{"all"}, Otherwise: OtherwiseNext}, ""},
	} {
		if got := on(within(t, Job{Schedule: c.spec, Calendars: c.calendars}, office), 5); got != c.want {
			t.Errorf("%s %+v: %s\nwant %s", c.spec, c.calendars, got, c.want)
		}
	}
}

// What is left out has the calendar that comes first, those of exclude before those of only, and what runs in its place.
func TestLeftOut(t *testing.T) {
	at := func(d, h, m int) time.Time { return monday.AddDate(0, 0, d).Add(time.Duration(h*60+m) * time.Minute) }
	s := within(t, Job{Schedule: "*/30 * * * *", Calendars: JobCalendars{Only: []string{"office"}, Exclude: []string{"wed", "lunch"}, Otherwise: OtherwiseNext}}, office)
	got, more := s.LeftOut(at(1, 11, 0), at(3, 9, 0), 10)
	want := []LeftOut{
		{at(1, 12, 0), at(1, 12, 30), 2, "lunch", false, at(1, 13, 0)},
		{at(1, 17, 0), at(1, 23, 30), 14, "office", true, at(3, 9, 0)},
		{at(2, 0, 0), at(2, 11, 30), 24, "wed", false, at(3, 9, 0)},
		{at(2, 12, 0), at(2, 12, 30), 2, "lunch", false, at(3, 9, 0)},
		{at(2, 13, 0), at(2, 23, 30), 22, "wed", false, at(3, 9, 0)},
		{at(3, 0, 0), at(3, 8, 30), 18, "office", true, at(3, 9, 0)},
	}
	if diff := cmp.Diff(want, got); diff != "" || more {
		t.Error(diff, more)
	}
	if got, more := s.LeftOut(at(1, 11, 0), at(3, 9, 0), 2); len(got) != 2 || !more || !cmp.Equal(got, want[:2]) {
		t.Errorf("at most two: %v, %v", got, more)
	}
	// What lies between two stretches does not divide due times of one calendar.
	s = within(t, Job{Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"office"}}}, office)
	if got, _ := s.LeftOut(at(0, 0, 0), at(5, 0, 0), 10); len(got) != 1 || got[0].Count != 5 {
		t.Errorf("each night: %v", got)
	}
	if got, more := within(t, Job{Schedule: "* * * * *"}, nil).LeftOut(at(0, 0, 0), at(5, 0, 0), 10); got != nil || more {
		t.Error("without calendars something is left out")
	}
}

// A job is looked at when a closure begins for it, then each hour, and when something fires.
func TestWakes(t *testing.T) {
	at := func(d, h, m int) time.Time { return monday.AddDate(0, 0, d).Add(time.Duration(h*60+m) * time.Minute) }
	s := within(t, Job{Schedule: "*/15 * * * *", Calendars: JobCalendars{Only: []string{"office"}}}, office)
	night := within(t, Job{Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"office"}, Otherwise: OtherwiseNext}}, office)
	never := within(t, Job{Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"none"}}}, office)
	for _, c := range []struct {
		s            *Schedule
		cursor, want time.Time
	}{
		{s, at(0, 16, 30), at(0, 16, 45)},
		{s, at(0, 16, 45), at(0, 17, 0)},  // the first one of a closure
		{s, at(0, 17, 0), at(0, 18, 0)},   // then each hour
		{s, at(0, 23, 30), at(1, 0, 30)},  // also over midnight
		{s, at(1, 8, 15), at(1, 9, 0)},    // and when it ends
		{s, at(0, 17, 7), at(0, 17, 15)},  // a job that is new
		{night, at(0, 9, 0), at(1, 9, 0)}, // one waits for the end of the closure
		{night, at(4, 9, 0), at(5, 2, 30)},
		{never, at(0, 0, 0), at(0, 2, 30)}, // nothing will fire: the rows are written all the same
		{never, at(0, 2, 30), at(1, 2, 30)},
		{within(t, Job{Schedule: "@at 2026-01-01T00:00:00Z", Calendars: JobCalendars{Only: []string{"none"}}}, office), monday, time.Time{}},
		{within(t, Job{Schedule: "* * * * *"}, nil), at(0, 0, 0), at(0, 0, 1)},
	} {
		if got := c.s.Wakes(c.cursor); !got.Equal(c.want) {
			t.Errorf("after %v it is looked at %v, want %v", c.cursor, got, c.want)
		}
	}
}

// A zone whose clock goes back over midnight: the day comes again, and is in the calendar again.
func TestADayThatComesTwice(t *testing.T) {
	all := map[string]Calendar{"day": {Dates: []string{"2018-02-17"}, Timezone: "America/Sao_Paulo"}}
	s := within(t, Job{Schedule: "*/30 * * * *", Timezone: "UTC", Calendars: JobCalendars{Only: []string{"day"}}}, all)
	n, exact := s.CountBetween(time.Date(2018, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2018, 3, 1, 0, 0, 0, 0, time.UTC))
	if n != 50 || !exact {
		t.Errorf("a day of 25 hours has %d half hours, %v", n, exact)
	}
}

// counting counts how often a rule is asked.
type counting struct {
	rule
	asked *int
}

func (c counting) next(t time.Time) time.Time {
	*c.asked++
	return c.rule.next(t)
}

func (c counting) count(after, until time.Time) int {
	*c.asked++
	return c.rule.count(after, until)
}

// An outage of ten years costs its closures, and not the due times in and between them.
func TestAnOutageOfYearsIsNotWalkedThrough(t *testing.T) {
	holidays := Calendar{Timezone: "Europe/London"}
	for year := 2026; year < 2040; year++ {
		holidays.Dates = append(holidays.Dates, fmt.Sprintf("%d-12-25", year), fmt.Sprintf("%d-12-26", year))
	}
	all := map[string]Calendar{"office": {Weekly: []string{"MON-FRI 09:00-17:00"}, Timezone: "Europe/London"}, "holidays": holidays}
	until := monday.AddDate(10, 0, 0)
	for _, otherwise := range []Otherwise{OtherwiseSkip, OtherwiseNext} {
		for _, spec := range []string{"* * * * * *", "* * * * *", "30 2 * * *", "* * LW * *", "30 11 15W * *", "*/5 11 * * FRI#2"} {
			for what, calendars := range map[string]JobCalendars{"days off": {Exclude: []string{"holidays"}}, "office hours": {Only: []string{"office"}}} {
				calendars.Otherwise = otherwise
				s := within(t, Job{Schedule: spec, Timezone: "Europe/London", Calendars: calendars}, all)
				asked := 0
				s.rules[0] = counting{s.rules[0], &asked}
				closures := 20
				if what == "office hours" {
					closures = 10 * 262
				}
				took := func(method string, limit int) {
					t.Helper()
					if asked > limit {
						t.Errorf("%s, %s, %s: %s asks %d times for %d closures", spec, what, otherwise, method, asked, closures)
					}
					asked = 0
				}
				s.CountBetween(monday, until)
				took("CountBetween", 60*closures+100)
				s.Latest(monday, until, 1)
				took("Latest", 3*closures+3000)
				s.Next(monday)
				took("Next", mostHops)
				s.Fired(until)
				took("Fired", 2000)
				s.Wakes(monday)
				took("Wakes", 20_000)
				if out, more := s.LeftOut(monday, until, 100); len(out) < 1 && s.Next(monday).Before(monday.AddDate(0, 0, 2)) || more && len(out) != 100 {
					t.Errorf("%s, %s: %d stretches, %v", spec, what, len(out), more)
				}
				took("LeftOut", 60*closures+10_000)
			}
		}
	}
}

func TestRefusedCalendars(t *testing.T) {
	many := make([]string, 10_001)
	for i := range many {
		many[i] = monday.AddDate(0, 0, i).Format(time.DateOnly)
	}
	for _, c := range []struct {
		calendar Calendar
		want     string
	}{
		{Calendar{Dates: []string{"2026-12-25", "25.12.2026"}}, `calendars.c.dates[1]: "25.12.2026" is not a date from 1970 to 9998; write it as in 2026-12-25`},
		{Calendar{Dates: []string{"2026-02-29"}}, `calendars.c.dates[0]: "2026-02-29" is not a date`},
		{Calendar{Dates: []string{"1969-12-31"}}, `calendars.c.dates[0]: "1969-12-31" is not a date from 1970`},
		{Calendar{Dates: many}, "calendars.c.dates: 10001 dates, at most 10000 are allowed"},
		{Calendar{Weekly: many[:101]}, "calendars.c.weekly: 101 entries, at most 100 are allowed"},
		{Calendar{Weekly: []string{""}}, `calendars.c.weekly[0]: "" is not weekdays and hours; write it as in MON-FRI 09:00-17:00`},
		{Calendar{Weekly: []string{"MON 09:00 - 17:00"}}, `"MON 09:00 - 17:00" is not weekdays and hours`},
		{Calendar{Weekly: []string{"09:00-17:00"}}, `"09:00-17:00" is not a weekday; write MON`},
		{Calendar{Weekly: []string{"MON-", "MO", "1-5"}}, `"MON-" is not a weekday`},
		{Calendar{Weekly: []string{"MON 09-17"}}, `"09-17" are not hours; write them as in 09:00-17:00, up to 24:00`},
		{Calendar{Weekly: []string{"MON 09:00-24:01"}}, `"09:00-24:01" are not hours of a day`},
		{Calendar{Weekly: []string{"MON 24:00-01:00"}}, `"24:00-01:00" are not hours of a day`},
		{Calendar{Weekly: []string{"MON 09:60-10:00"}}, `"09:60-10:00" are not hours of a day`},
		{Calendar{Weekly: []string{"MON 09:00-09:00"}}, "the hours end when they start; for whole days leave them out, or write 00:00-24:00"},
		{Calendar{Timezone: "Mars/X"}, `calendars.c.timezone: unknown time zone "Mars/X"`},
		{Calendar{ICS: "x"}, "calendars.c.ics: is not an iCalendar file"},
	} {
		err := Set{Calendars: map[string]Calendar{"c": c.calendar}}.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	for _, c := range []struct {
		calendars JobCalendars
		want      string
	}{
		{JobCalendars{Exclude: []string{"nigth"}}, `jobs.j.calendars.exclude[0]: there is no calendar "nigth"; did you mean "night"?`},
		{JobCalendars{Only: []string{"office", "zzzzzzzzz"}}, `jobs.j.calendars.only[1]: there is no calendar "zzzzzzzzz"; defined are all, late, lunch, night, none, office, thu, wed, whole`},
		{JobCalendars{Only: []string{"office", "office"}}, `jobs.j.calendars.only[1]: "office" is given twice; remove one`},
		{JobCalendars{Only: []string{"office"}, Exclude: []string{"office"}}, `jobs.j.calendars.only[0]: "office" is in exclude, too`},
		{JobCalendars{Only: []string{"office"}, Otherwise: "later"}, `jobs.j.calendars.otherwise: "later" is unknown; use skip or next`},
		{JobCalendars{Only: slices.Repeat([]string{"office"}, 1), Exclude: many[:16]}, "jobs.j.calendars: 17 calendars, at most 16 are allowed"},
	} {
		err := Set{Calendars: office, Jobs: map[string]Job{"j": {Schedule: "@daily", Handler: says("h"), Calendars: c.calendars}}}.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	if err := (Set{Calendars: map[string]Calendar{"a b": {}, "X": {}, "x": {}}}).Validate(); err == nil || strings.Count(err.Error(), "calendars.") < 3 {
		t.Errorf("names: %v", err)
	}
	if err := (Set{Calendars: office, Jobs: map[string]Job{"j": {Schedule: "@daily", Handler: says("h"), Calendars: JobCalendars{Only: []string{"office"}, Exclude: []string{"wed"}}}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// What a calendar says counts for the jobs that have it, and for no other one; however it is written.
func TestCalendarsInHashes(t *testing.T) {
	job := Job{Schedule: "@daily", Handler: says("h"), Calendars: JobCalendars{Exclude: []string{"a"}, Only: []string{"b"}}}
	hashes := func(a, b Calendar, job Job) string {
		c := Set{Calendars: map[string]Calendar{"a": a, "b": b, "c": {Dates: []string{"2026-01-01"}}}}.Compiler()
		return c.Hash(job) + " " + c.ScheduleHash(job)
	}
	a := Calendar{Dates: []string{"2026-12-25", "2026-12-26"}}
	b := Calendar{Weekly: []string{"MON-FRI 09:00-17:00"}, Timezone: "Europe/London"}
	event := func(lines string) string {
		return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\n" + lines + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	}
	one := hashes(a, b, job)
	other := job
	other.Calendars.Otherwise = OtherwiseSkip
	for what, same := range map[string]string{
		"the default":       hashes(a, b, other),
		"the order":         hashes(Calendar{Dates: []string{"2026-12-26", "2026-12-25", "2026-12-25"}}, b, job),
		"the default zone":  hashes(Calendar{Dates: a.Dates, Timezone: "UTC"}, b, job),
		"parts of the week": hashes(a, Calendar{Weekly: []string{"mon-wed 9:00-12:00", "MON,TUE,WED 12:00-17:00", "THU-FRI 09:00-17:00"}, Timezone: "Europe/London"}, job),
	} {
		if same != one {
			t.Errorf("%s counts", what)
		}
	}
	seen := map[string]string{one: "nothing"}
	next := job
	next.Calendars.Otherwise = OtherwiseNext
	swapped := job
	swapped.Calendars = JobCalendars{Exclude: []string{"b"}, Only: []string{"a"}}
	for what, altered := range map[string]string{
		"a date":       hashes(Calendar{Dates: a.Dates[:1]}, b, job),
		"hours":        hashes(a, Calendar{Weekly: []string{"MON-FRI 09:00-17:01"}, Timezone: "Europe/London"}, job),
		"a zone":       hashes(a, Calendar{Weekly: b.Weekly}, job),
		"an event":     hashes(Calendar{Dates: a.Dates, ICS: event("DTSTART:20261231")}, b, job),
		"its rule":     hashes(Calendar{Dates: a.Dates, ICS: event("DTSTART:20261231\r\nRRULE:FREQ=YEARLY")}, b, job),
		"otherwise":    hashes(a, b, next),
		"their places": hashes(a, b, swapped),
	} {
		if was, dup := seen[altered]; dup {
			t.Errorf("%s has the hash of %s", what, was)
		}
		seen[altered] = what
	}
	without := Job{Schedule: "@daily", Handler: says("h")}
	if c := (Set{Calendars: office}).Compiler(); c.Hash(without) != without.Hash() || c.ScheduleHash(without) != without.ScheduleHash() {
		t.Error("a job without calendars has another hash in a set with some")
	}
	if _, err := job.Compile("j"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "Set.Compiler") {
		t.Errorf("without its set: %v", err)
	}
}

// What never runs is named; what is over, or runs in years, is not.
func TestNeverDue(t *testing.T) {
	all := map[string]Calendar{
		"office": office["office"], "past": {Dates: []string{"2020-01-01"}}, "sunday": {Weekly: []string{"SUN"}},
		"far": {Dates: []string{"2060-01-01"}},
	}
	set := Set{Calendars: all, Jobs: map[string]Job{}}
	for name, j := range map[string]Job{
		"night":      {Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"office"}}},
		"night-next": {Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"office"}, Otherwise: OtherwiseNext}},
		"past":       {Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"past"}}},
		"past-next":  {Schedule: "* * * * * *", Calendars: JobCalendars{Only: []string{"past"}, Otherwise: OtherwiseNext}},
		"over":       {Schedule: "@at 2020-01-01T00:00:00Z", Calendars: JobCalendars{Exclude: []string{"past"}}},
		"leap":       {Schedule: "0 0 29 2 *", Calendars: JobCalendars{Only: []string{"sunday"}}},
		"far":        {Schedule: "30 2 * * *", Calendars: JobCalendars{Only: []string{"far"}}},
		"demand":     {Calendars: JobCalendars{Only: []string{"past"}}},
		"free":       {Schedule: "30 2 * * *"},
	} {
		set.Jobs[name] = j
	}
	began := time.Now()
	if got := set.NeverDue(monday); !slices.Equal(got, []string{"night", "past", "past-next"}) {
		t.Errorf("never due: %v", got)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	far := within(t, set.Jobs["far"], all)
	if at := far.Next(monday); !at.Equal(time.Date(2060, 1, 1, 2, 30, 0, 0, time.UTC)) {
		t.Errorf("the one of 2060 is due at %v", at)
	}
}

// What calendars leave out is decided up to the last due time of a schedule that ends.
func TestLeftOutBeforeTheEnd(t *testing.T) {
	set := Set{Calendars: map[string]Calendar{"off": {Dates: []string{"2026-06-01"}}}}
	for _, ends := range []time.Duration{10 * time.Second, 90 * time.Minute} {
		begin := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
		job := Job{Schedule: "@every 2s", EndsAt: begin.Add(ends), Calendars: JobCalendars{Exclude: []string{"off"}}, Handler: says("h")}
		s, err := set.Compiler().Compile("j", job)
		if err != nil {
			t.Fatal(err)
		}
		last := begin.Add(-2 * time.Second)
		for at := s.Wakes(last); !at.IsZero() && at.After(last); at = s.Wakes(at) {
			last = at
		}
		if want := begin.Add(ends - 2*time.Second); !last.Equal(want) {
			t.Errorf("ends after %v: it is looked at last at %v, not %v", ends, last, want)
		}
	}
}
