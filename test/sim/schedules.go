package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// walked is what is known of due times that are found by a walk: some days before the run, and after it. Outages last for up to half a day each.
const (
	walkedBefore = 48 * time.Hour
	walkedAfter  = 7 * 24 * time.Hour
)

// began is when the first replica starts. The bubble's clock starts with 2000.
func (p *plan) began() time.Time { return in2000(time.January, 1, 0, 0).Add(p.Start) }

// drawDay moves the run to another day of the year for a share of the seeds: to a jump of a zone's clock, near the end of a month, or beside a weekend.
func (p *plan) drawDay(d draw) {
	p.Zone = pick(d, zones...)
	switch d.IntN(6) {
	case 0, 1, 2:
		p.Zone = pick(d, zones[2:]...)
		before := pick(d, d.between(-time.Second, p.Length), d.between(-time.Second, p.Length), d.between(-90*time.Minute, time.Minute))
		p.Start = pick(d, p.Zone.jumps...).at.Add(-before).Sub(in2000(time.January, 1, 0, 0)).Truncate(time.Millisecond)
	case 3:
		month := in2000(time.Month(2+d.IntN(11)), 1, 0, 0)
		p.Start += month.AddDate(0, 0, -1-d.IntN(4)).Sub(in2000(time.January, 1, 0, 0))
	case 4: // what is nearest to a weekend
		day := p.began().Truncate(24*time.Hour).AddDate(0, 0, d.IntN(50)*7)
		p.Start += day.AddDate(0, 0, int(pick(d, time.Monday, time.Friday, time.Friday)+7-day.Weekday())%7).Sub(in2000(time.January, 1, 0, 0))
	}
}

// drawSchedules gives a share of the jobs expressions of fields, in zones, and moments. Another configuration may have others.
func (p *plan) drawSchedules() {
	for version, set := range p.versions() {
		for name, j := range set {
			n := 0
			if keyed(p.Seed, "other schedules of "+name, 0).chance(0.3) {
				n = version
			}
			d := keyed(p.Seed, "schedules of "+name, n)
			if !d.chance(0.3) {
				continue
			}
			z := pick(d, p.Zone, p.Zone, pick(d, zones...))
			j.Timezone, j.Times = z.name, nil
			for place := range pick(d, 1, 1, 1, 2) {
				mid := p.began().Add(d.between(-5*time.Second, p.Length+10*time.Second)).Truncate(time.Second)
				if d.chance(0.1) {
					at := mid.In(time.FixedZone("", int(pick(d, 0, time.Hour, -210*time.Minute)/time.Second)))
					j.Times = append(j.Times, once{mid, "@at " + at.Format(time.RFC3339)})
				} else {
					j.Times = append(j.Times, drawFields(d, z, mid, name, place).walk(p.began().Add(-walkedBefore), p.began().Add(walkedAfter)))
				}
			}
			if d.chance(0.2) {
				j.Times = append(j.Times, every(pick(d, 7*time.Second, 30*time.Second, time.Minute)))
			}
			j.Schedules = j.Times.specs()
			set[name] = j
		}
	}
}

// drawFields draws an expression that is due near a moment, or would be on another day, or by another offset from UTC.
func drawFields(d draw, z timeZone, mid time.Time, name string, place int) fields {
	local := z.shows(mid)
	for _, j := range z.jumps { // what was jumped over, or shown twice
		if near := mid.Sub(j.at); near.Abs() < 2*time.Hour && d.chance(0.4) {
			local = mid.Add(z.offsetAt(j.at.Add(-time.Second)))
			if near < 0 {
				local = mid.Add(j.offset)
			}
		}
	}
	f := fields{zone: z, seconds: []int{local.Second()}, minutes: []int{local.Minute()}, hours: []int{local.Hour()}}
	second, minute, hour := fmt.Sprint(local.Second()), fmt.Sprint(local.Minute()), fmt.Sprint(local.Hour())
	switch d.IntN(12) {
	case 0, 1:
	case 2:
		at := local.Second() % 20
		second, f.seconds = fmt.Sprintf("%d,%d,%d", at, at+20, at+40), []int{at, at + 20, at + 40}
	case 3:
		step := pick(d, 1, 2, 5, 15)
		minute, f.minutes, f.wild = fmt.Sprintf("*/%d", step), steps(0, 59, step), true
	case 4:
		hour, f.hours, f.wild = "*", steps(0, 23, 1), true
	case 5:
		step := pick(d, 2, 3)
		hour, f.hours, f.wild = fmt.Sprintf("*/%d", step), steps(0, 23, step), true
	case 6:
		minute, f.minutes, f.wild = "*", steps(0, 59, 1), true
	case 7:
		second, f.seconds = "H", []int{hashedIn(name, "second", place, 0, 59)}
	case 8:
		last := min(59, local.Minute()+2)
		minute, f.minutes = fmt.Sprintf("H(%d-%d)", local.Minute(), last), []int{hashedIn(name, "minute", place, local.Minute(), last)}
	case 9:
		second, f.seconds = "H", []int{hashedIn(name, "second", place, 0, 59)}
		minute, f.minutes, hour, f.hours, f.wild = "*", steps(0, 59, 1), "*", steps(0, 23, 1), true
	case 10:
		first := hashedIn(name, "minute", place, 0, 19)
		minute, f.minutes = "H/20", steps(first, 59, 20)
		hour, f.hours, f.wild = "*", steps(0, 23, 1), true
	case 11:
		hour, f.hours = "0-23", steps(0, 23, 1)
	}
	f.dom, f.dow = drawDays(d, local, name, place)
	f.spec = fmt.Sprintf("%s %s %s %s * %s", second, minute, hour, f.dom.text, f.dow.text)
	return f
}

func steps(first, last, step int) (all []int) {
	for n := first; n <= last; n += step {
		all = append(all, n)
	}
	return all
}

// drawDays draws the fields of days: mostly those of a day, or of all days.
func drawDays(d draw, day time.Time, name string, place int) (dom, dow dayField) {
	last := lastDay(day)
	dom, dow = everyDay(), everyDay()
	if d.chance(0.3) {
		return dom, dow
	}
	doms := []dayField{dayOfMonth(day.Day()), beforeLast(last - day.Day())}
	for n := range last {
		if nearestWeekday(day, n+1) == day.Day() {
			doms = append(doms, slices.Repeat([]dayField{weekdayNear(n + 1)}, 1+4*min(1, max(n+1-day.Day(), day.Day()-n-1)))...)
		}
		if n < 5 && nearestWeekday(day, last-n) == day.Day() {
			doms = append(doms, weekdayNearLast(n), weekdayNearLast(n), weekdayNearLast(n))
		}
	}
	if beforeLast(0).has(day) || beforeLast(3).has(day) {
		doms = slices.Repeat([]dayField{beforeLast(last - day.Day())}, 5)
	}
	dows := []dayField{weekday(day.Weekday()), nthWeekday(day.Weekday(), (day.Day()+6)/7)}
	if lastWeekday(day.Weekday()).has(day) {
		dows = append(dows, lastWeekday(day.Weekday()))
	}
	if d.chance(0.25) { // of any day
		doms = []dayField{beforeLast(d.IntN(5)), weekdayNear(1 + d.IntN(31)), weekdayNearLast(d.IntN(5)), hashedDay(name, place), oddDays()}
	}
	if d.chance(0.25) {
		w := time.Weekday(d.IntN(7))
		dows = []dayField{weekday(w), nthWeekday(w, 1+d.IntN(5)), lastWeekday(w)}
	}
	switch d.IntN(4) {
	case 0:
		return pick(d, doms...), dow
	case 1:
		return dom, pick(d, dows...)
	case 2:
		return pick(d, doms...), pick(d, dows...)
	default:
		return pick(d, doms...), dow
	}
}

// drawBounds bounds the due times of some jobs: often within the run.
func (p *plan) drawBounds() {
	for version, set := range p.versions() {
		for name, j := range set {
			n := 0
			if keyed(p.Seed, "other bounds of "+name, 0).chance(0.3) {
				n = version
			}
			d := keyed(p.Seed, "bounds of "+name, n)
			if !d.chance(0.15) {
				continue
			}
			at := func() time.Time {
				return p.began().Add(pick(d, d.between(0, p.Length), d.between(0, p.Length), d.between(-time.Hour, 12*time.Hour))).Truncate(pick(d, time.Second, time.Millisecond))
			}
			if j.StartsAt = at(); d.chance(0.6) {
				j.StartsAt, j.EndsAt = time.Time{}, at()
			} else if ends := at(); ends.After(j.StartsAt) && d.chance(0.5) {
				j.EndsAt = ends
			}
			for i, r := range j.Times {
				j.Times = slices.Clone(j.Times)
				j.Times[i] = bounded{r, j.StartsAt, j.EndsAt}
			}
			set[name] = j
		}
	}
}

// special are the items of fields that are counted when something is due by them.
var special = map[string]*regexp.Regexp{
	"L": regexp.MustCompile(`[ A-Z]L(-| |$)`), "W": regexp.MustCompile(`[0-9L]W`), "#": regexp.MustCompile(`#`), "H": regexp.MustCompile(`(^| )H`),
}

// countSchedule counts by what a trigger was due that runs. With w.mu held.
func (w *world) countSchedule(g memstore.Trigger) {
	if g.Seq > 0 || g.TaskID == "" {
		return
	}
	j := w.specs[g.Job][0]
	for _, r := range j.Times {
		switch due := time.UnixMicro(g.At).UTC(); {
		case !r.next(due.Add(-time.Nanosecond)).Equal(due):
			continue
		case !j.StartsAt.IsZero() || !j.EndsAt.IsZero():
			w.counted["due within bounds"]++
		case strings.HasPrefix(r.String(), "@at"):
			w.counted["due at @at"]++
		case j.Timezone != "":
			w.counted["due in a zone"]++
			i := slices.IndexFunc(zones, func(z timeZone) bool { return z.name == j.Timezone })
			if slices.ContainsFunc(zones[i].jumps, func(j clockJump) bool { return j.at.Equal(due) }) {
				w.counted["due at a jump"]++
			}
		}
		for what, by := range special {
			if by.MatchString(r.String()) {
				w.counted["due by "+what]++
			}
		}
	}
}
