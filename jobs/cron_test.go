package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// The two models below are what cron.c and entry.c of Vixie cron 3.0 and of ISC cron 4.1 and later do with the time
// fields of a line, put down from reading them. In both a field has a star if it begins with *. A day matches if both of
// its fields do, where one of them has a star, and else if either does.
type cronLine struct {
	oracle      // its both and running are not used
	stars  bool // day of month or day of week has one
	wild   bool // minute or hour has one (ISC)
}

func readCron(t *testing.T, line string) cronLine {
	t.Helper()
	words := strings.Fields(line)
	var sets [5][]int
	for i, low := range []int{0, 0, 1, 1, 0} {
		high := []int{59, 23, 31, 12, 7}[i]
		for item := range strings.SplitSeq(words[i], ",") {
			from, to, step := low, high, 1
			span, behind, stepped := strings.Cut(item, "/")
			if stepped {
				mustScan(t, behind, "%d", &step)
			}
			switch {
			case span == "*":
			case strings.Contains(span, "-"):
				mustScan(t, span, "%d-%d", &from, &to)
			default:
				mustScan(t, span, "%d", &from)
				to = from
			}
			for n := from; n <= to; n += step {
				sets[i] = append(sets[i], n)
			}
		}
	}
	if slices.Contains(sets[4], 7) {
		sets[4] = append(sets[4], 0)
	}
	star := func(i int) bool { return words[i][0] == '*' }
	l := cronLine{stars: star(2) || star(4), wild: star(0) || star(1)}
	l.oracle = oracle{minutes: sets[0], hours: sets[1], months: sets[3], dom: onDays(sets[2]...), dow: onWeekdays(sets[4]...), both: l.stars}
	return l
}

func mustScan(t *testing.T, text, format string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscanf(text, format, into...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// vixie starts a line in each minute of real time whose local reading matches; it does not know jumps.
func vixie(l cronLine, seen []glance) (starts []time.Time) {
	for _, now := range seen {
		if l.shows(now.shows) {
			starts = append(starts, now.at)
		}
	}
	return starts
}

// isc goes by local minutes. It follows them with a clock of its own: behind by more than five and up to 180 minutes, wild lines
// are started for the minute that it is, and the others for each one that was left out; ahead by up to 180, wild lines
// alone are started, until the local time has caught up; in any other jump it starts from where it is.
func isc(l cronLine, seen []glance) (starts []time.Time) {
	own := seen[0].shows
	for _, now := range seen[1:] {
		try := func(reading time.Time, wild, others bool) {
			if l.shows(reading) && (l.wild && wild || !l.wild && others) {
				starts = append(starts, now.at)
			}
		}
		switch behind := now.shows.Sub(own) / time.Minute; {
		case behind > 180 || behind < -180:
			own = now.shows
			try(own, true, true)
		case behind > 5:
			try(now.shows, true, false)
			for own.Before(now.shows) {
				own = own.Add(time.Minute)
				try(own, false, true)
			}
		case behind > 0:
			for own.Before(now.shows) {
				own = own.Add(time.Minute)
				try(own, true, true)
			}
		default:
			try(now.shows, true, false)
		}
	}
	return starts
}

// Days of June 2026, which begins on a Monday, on which Vixie cron and ISC cron start a line at midnight. docs/schedules.md has
// this table.
func TestDayFieldsAsInCron(t *testing.T) {
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 1, 0).Add(-time.Minute)
	seen := watch(time.UTC, from, until, time.Minute)[48*60-1:]
	every := "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30"
	for _, c := range []struct{ days, want string }{
		{"13 * *", "13"},
		{"* * 1", "1 8 15 22 29"},
		{"13 * 5", "5 12 13 19 26"},
		{"1-31/2 * 1", "1 3 5 7 8 9 11 13 15 17 19 21 22 23 25 27 29"},
		{"1-31 * 1", every},
		{"13 * 0-6", every},
		{"15,* * 1", every},
		{"*/2 * *", "1 3 5 7 9 11 13 15 17 19 21 23 25 27 29"},
		{"*/2 * 1", "1 15 29"},
		{"*/10 * 1-5", "1 11"},
		{"*,15 * 1", "1 8 15 22 29"},
		{"*/2 * 0-6", "1 3 5 7 9 11 13 15 17 19 21 23 25 27 29"},
		{"13 * */2", "13"},
		{"12 * */2", ""},
		{"*/10 * */3", "21"},
	} {
		line := "0 0 " + c.days
		cron := readCron(t, line)
		due, _ := schedule(t, "", line).Between(from.Add(-time.Minute), until, 100)
		for who, starts := range map[string][]time.Time{"Vixie cron": vixie(cron, seen), "ISC cron": isc(cron, seen), "Lockstep": due} {
			if diff := cmp.Diff(c.want, inWords(starts, time.UTC, "2")); diff != "" {
				t.Errorf("%s by %s (−want +got):\n%s", line, who, diff)
			}
		}
	}
}

func inWords(times []time.Time, zone *time.Location, layout string) string {
	var words []string
	for _, at := range times {
		words = append(words, at.In(zone).Format(layout))
	}
	return strings.Join(words, " ")
}

// When lines are started in New York on 8 March 2026, when the clock goes from 2:00 to 3:00, and on 1 November, when it goes
// from 2:00 back to 1:00 (EDT comes before EST). Lockstep is due when ISC cron starts a line; what ISC cron starts several times in one minute is
// due once. docs/schedules.md has this table.
func TestJumpsAsInCron(t *testing.T) {
	zone, err := zone.Load("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, spring, vixieSpring, autumn, vixieAutumn string }{
		{"30 2 * * *", "3:00EDT", "", "2:30EST", "2:30EST"},
		{"30 1 * * *", "1:30EST", "1:30EST", "1:30EDT", "1:30EDT 1:30EST"},
		{"0,30 2 * * *", "3:00EDT 3:00EDT", "", "2:00EST 2:30EST", "2:00EST 2:30EST"},
		{"*/30 2 * * *", "", "", "2:00EST 2:30EST", "2:00EST 2:30EST"},
		{"*/30 1 * * *", "1:00EST 1:30EST", "1:00EST 1:30EST", "1:00EDT 1:30EDT 1:00EST 1:30EST", "1:00EDT 1:30EDT 1:00EST 1:30EST"},
		{"0,30 1 * * *", "1:00EST 1:30EST", "1:00EST 1:30EST", "1:00EDT 1:30EDT", "1:00EDT 1:30EDT 1:00EST 1:30EST"},
		{"0 * * * *", "1:00EST 3:00EDT", "1:00EST 3:00EDT", "1:00EDT 1:00EST 2:00EST 3:00EST", "1:00EDT 1:00EST 2:00EST 3:00EST"},
		{"0 0-23 * * *", "1:00EST 3:00EDT 3:00EDT", "1:00EST 3:00EDT", "1:00EDT 2:00EST 3:00EST", "1:00EDT 1:00EST 2:00EST 3:00EST"},
		{"30 */2 * * *", "", "", "2:30EST", "2:30EST"},
		{"30 2-23/2 * * *", "3:00EDT", "", "2:30EST", "2:30EST"},
		{"30 1-23/2 * * *", "1:30EST 3:30EDT", "1:30EST 3:30EDT", "1:30EDT 3:30EST", "1:30EDT 1:30EST 3:30EST"},
	} {
		cron := readCron(t, c.line)
		for _, night := range []struct {
			from       time.Time // local 1:00
			isc, vixie string
		}{
			{time.Date(2026, 3, 8, 6, 0, 0, 0, time.UTC), c.spring, c.vixieSpring},
			{time.Date(2026, 11, 1, 5, 0, 0, 0, time.UTC), c.autumn, c.vixieAutumn},
		} {
			until := time.Date(2026, night.from.Month(), night.from.Day(), 3, 59, 0, 0, zone)
			seen := watch(zone, night.from, until.Add(time.Minute), time.Minute)
			seen = seen[48*60-1:]
			due, _ := schedule(t, "America/New_York", c.line).Between(night.from.Add(-time.Minute), until, 100)
			iscStarts := isc(cron, seen)
			for who, pair := range map[string][2]string{
				"Vixie cron": {night.vixie, inWords(vixie(cron, seen), zone, "3:04MST")},
				"ISC cron":   {night.isc, inWords(iscStarts, zone, "3:04MST")},
				"Lockstep":   {inWords(slices.CompactFunc(iscStarts, time.Time.Equal), zone, "3:04MST"), inWords(due, zone, "3:04MST")},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s on %v by %s: %s, want %s", c.line, night.from.Format("2 January"), who, pair[1], pair[0])
				}
			}
		}
	}
}
