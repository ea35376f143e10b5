package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// place is a wall clock that was watched for a while.
type place struct {
	zone        string
	from, until time.Time
	seen        []glance
}

// places are those of the properties: some weeks by the minute, and some hours around jumps by the second.
func places(t *testing.T) (all []place) {
	for _, p := range []struct {
		zone string
		from time.Time
		span time.Duration
		step time.Duration
	}{
		{"UTC", time.Date(2028, 2, 20, 0, 0, 0, 0, time.UTC), 45 * day, time.Minute}, // a leap year
		{"UTC", time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC), 45 * day, time.Minute},
		{"America/New_York", time.Date(2026, 2, 26, 0, 0, 0, 0, time.UTC), 35 * day, time.Minute},
		{"Europe/London", time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), 35 * day, time.Minute},
		{"Africa/Cairo", time.Date(2026, 4, 20, 0, 0, 0, 0, time.UTC), 15 * day, time.Minute},
		{"America/Santiago", time.Date(2026, 3, 25, 0, 0, 0, 0, time.UTC), 15 * day, time.Minute},
		{"Pacific/Apia", time.Date(2011, 12, 25, 0, 0, 0, 0, time.UTC), 15 * day, time.Minute},
		{"Australia/Lord_Howe", time.Date(2026, 10, 3, 14, 0, 0, 0, time.UTC), 4 * time.Hour, time.Second},
		{"America/New_York", time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC), 4 * time.Hour, time.Second},
	} {
		zone, err := zone.Load(p.zone)
		if err != nil {
			t.Fatal(err)
		}
		seen := watch(zone, p.from, p.from.Add(p.span).Add(p.step), p.step)
		all = append(all, place{p.zone, p.from, p.from.Add(p.span), seen})
	}
	return all
}

// drawn is one field: its text, and what it means.
type drawn struct {
	text string
	set  []int
	days question // of a day field
	star bool
}

// drawField draws a list of one to three items.
func drawField(t *rapid.T, f *field) drawn {
	var (
		d     drawn
		items []string
		days  []question
	)
	number := rapid.IntRange(f.min, f.max)
	for range rapid.IntRange(1, 3).Draw(t, "items") {
		kind := rapid.SampledFrom([]string{"*", "*", "*/n", "n", "n", "a-b", "a-b/n", "special", "special"}).Draw(t, f.name)
		from, to, step := f.min, f.max, 1
		item := kind
		switch {
		case kind == "*":
		case kind == "*/n":
			step = rapid.IntRange(1, f.max-f.min).Draw(t, "step")
			item = fmt.Sprintf("*/%d", step)
		case kind == "special" && f.max == 31:
			text, is := drawSpecialDay(t)
			items, days = append(items, text), append(days, is)
			continue
		case kind == "special" && f.weekdays():
			weekday, n := number.Draw(t, "weekday"), rapid.IntRange(1, 6).Draw(t, "nth")
			if n == 6 {
				items, days = append(items, f.names[weekday]+"L"), append(days, lastOf(weekday))
			} else {
				items, days = append(items, fmt.Sprintf("%d#%d", weekday, n)), append(days, nth(weekday, n))
			}
			continue
		case strings.HasPrefix(kind, "a-b"):
			from, to = number.Draw(t, "from"), number.Draw(t, "to")
			item = fmt.Sprintf("%d-%d", from, to)
			if to < from {
				to += f.max - f.min + 1
			}
			if kind == "a-b/n" && to > from {
				step = rapid.IntRange(1, to-from).Draw(t, "step")
				item += fmt.Sprintf("/%d", step)
			}
		default:
			from = number.Draw(t, "number")
			to, item = from, fmt.Sprint(from)
		}
		for n := from; n <= to; n += step {
			d.set = append(d.set, f.min+(n-f.min)%(f.max-f.min+1))
		}
		items = append(items, item)
	}
	d.text = strings.Join(items, ",")
	d.star = d.text[0] == '*'
	in := onDays(d.set...)
	if f.weekdays() {
		in = onWeekdays(d.set...)
	}
	d.days = anyOf(append(days, in)...)
	return d
}

func drawSpecialDay(t *rapid.T) (string, question) {
	n := rapid.IntRange(1, 30).Draw(t, "n")
	switch rapid.IntRange(0, 4).Draw(t, "special") {
	case 0:
		return "L", beforeLast(0)
	case 1:
		return fmt.Sprintf("L-%d", n), beforeLast(n)
	case 2:
		return "LW", nearest(whole)
	case 3:
		return fmt.Sprintf("L-%dW", n), nearest(func(last int) int { return last - n })
	}
	return fmt.Sprintf("%dW", n+1), nearest(fixedDay(n + 1))
}

// drawExpression draws an expression, and when it is due after p.from, up to and including p.until.
func drawExpression(t *rapid.T, p place) (string, []time.Time) {
	step := p.seen[1].at.Sub(p.seen[0].at)
	span := p.until.Sub(p.from)
	switch rapid.IntRange(0, 9).Draw(t, "expression") {
	case 0:
		at := p.from.Add(time.Duration(rapid.Int64Range(-3600, int64(span/time.Second)+3600).Draw(t, "at")) * time.Second)
		var due []time.Time
		if at.After(p.from) && !at.After(p.until) {
			due = []time.Time{at}
		}
		return "@at " + at.In(time.FixedZone("", 5400)).Format(time.RFC3339), due
	case 1:
		period := time.Duration(rapid.Int64Range(10, 1500).Draw(t, "period")) * step
		var due []time.Time
		for _, now := range p.seen {
			if now.at.After(p.from) && now.at.Unix()%int64(period/time.Second) == 0 {
				due = append(due, now.at)
			}
		}
		return "@every " + period.String(), due
	}
	o := oracle{seconds: []int{0}}
	var text []string
	if step == time.Second {
		second := drawField(t, &fields[0])
		o.seconds, text = second.set, append(text, second.text)
	}
	m, h, dom, month, dow := drawField(t, &fields[minute]), drawField(t, &fields[hour]), drawField(t, &fields[dayOfMonth]), drawField(t, &fields[4]), drawField(t, &fields[dayOfWeek])
	if rapid.IntRange(0, 3).Draw(t, "all months") > 0 {
		month = drawn{text: "*"}
	}
	for _, f := range []drawn{m, h, dom, month, dow} {
		text = append(text, f.text)
	}
	o.minutes, o.hours, o.months, o.dom, o.dow = m.set, h.set, month.set, daily(dom.days), daily(dow.days)
	o.both, o.running = dom.star || dow.star, m.star || h.star
	return strings.Join(text, " "), o.due(p.seen, p.from)
}

// daily asks once for each day.
func daily(is question) question {
	day, answer := 0, false
	return func(t time.Time) bool {
		if now := t.Year()*1000 + t.YearDay(); now != day {
			day, answer = now, is(t)
		}
		return answer
	}
}

// Whatever is written, all methods agree with each other and with the watched clock: Next is the first due time after
// its argument, Between all of them, Latest their end and CountBetween their number, within StartsAt and EndsAt.
func TestSchedulesAgreeWithAWatchedClock(t *testing.T) {
	all := places(t)
	rapid.Check(t, func(t *rapid.T) {
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")] // its readings would fill pages
		job := Job{Timezone: p.zone}
		var want []time.Time
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			spec, due := drawExpression(t, p)
			if _, err := ParseSchedule([]string{spec}, p.zone); err != nil {
				if !strings.Contains(err.Error(), "never fire") && !strings.Contains(err.Error(), "step") || len(due) > 0 {
					t.Fatalf("%v; the clock says %v", err, due)
				}
				continue
			}
			job.Schedules = append(job.Schedules, spec)
			want = append(want, due...)
		}
		slices.SortFunc(want, time.Time.Compare)
		want = slices.CompactFunc(want, time.Time.Equal)
		moment := func(what string) time.Time {
			if len(want) > 0 && rapid.Bool().Draw(t, what+" is due") {
				return rapid.SampledFrom(want).Draw(t, what).Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "ns")))
			}
			return p.from.Add(time.Duration(rapid.Int64Range(0, int64(p.until.Sub(p.from))).Draw(t, what)))
		}
		if rapid.IntRange(0, 2).Draw(t, "starts") == 0 {
			job.StartsAt = moment("starts at")
			want = slices.DeleteFunc(want, func(at time.Time) bool { return at.Before(job.StartsAt) })
		}
		if rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
			job.EndsAt = moment("ends at")
			want = slices.DeleteFunc(want, func(at time.Time) bool { return !at.Before(job.EndsAt) })
		}
		s, err := job.Compile("j")
		if err != nil {
			t.Fatal(err)
		}
		agree(t, s, fmt.Sprintf("%+q in %s from %v before %v", job.Schedules, p.zone, job.StartsAt, job.EndsAt), want, p.from, p.until)
		a, b := moment("a"), moment("b")
		if b.Before(a) {
			a, b = b, a
		}
		inside := slices.DeleteFunc(slices.Clone(want), func(at time.Time) bool { return !at.After(a) || at.After(b) })
		agree(t, s, fmt.Sprintf("%+q in %s", job.Schedules, p.zone), inside, a, b)
		one, other := s.Next(a), s.Next(b)
		first := slices.IndexFunc(want, a.Before)
		switch {
		case !one.IsZero() && !one.After(a):
			t.Fatalf("Next(%v) = %v, not later", a, one)
		case one.IsZero() && !other.IsZero() || other.Before(one) && !other.IsZero():
			t.Fatalf("Next is not monotonic: %v after %v, %v after %v", one, a, other, b)
		case first >= 0 && !one.Equal(want[first]), first < 0 && !one.IsZero() && !one.After(p.until):
			t.Fatalf("%+q in %s: Next(%v) = %v, want one of %v", job.Schedules, p.zone, a, one, want[max(first, 0):])
		}
	})
}

// Nothing depends on when a schedule was read: two replicas that start at different moments have the same due times.
func TestSchedulesThatAreReadAtDifferentMomentsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := Job{Timezone: "Europe/London", StartsAt: monday, EndsAt: monday.Add(300 * day)}
		for _, spec := range []string{
			"@every 7m", "@every 90001s", "H H * * *", "H/7 H(1-5) H * *", "30 2 LW * *", "*/15 8-18 * * MON-FRI", "0 3 */2 * FRI#2,SUNL", "@at 2026-07-01T00:00:00Z", "@hourly",
		} {
			job.Schedule = spec
			one, err := job.Compile("report")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1009 * time.Second)
			other, err := job.Compile("report")
			if err != nil {
				t.Fatal(err)
			}
			a, _ := one.Between(monday, monday.Add(400*day), 2000)
			b, _ := other.Between(monday, monday.Add(400*day), 2000)
			if len(a) == 0 || !slices.EqualFunc(a, b, time.Time.Equal) {
				t.Errorf("%s: %d due times, and %d when read later", spec, len(a), len(b))
			}
		}
	})
}
