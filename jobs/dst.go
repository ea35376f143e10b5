package jobs

import "time"

// Zones whose clocks jump are handled in two ways, as in ISC cron.
//
// fixed times ("30 2 * * *", "0 1/3 * * *"): a reading is due when the clock shows it or a later one for the
// first time. Where the clock jumps ahead over it, that is the moment of the jump, and all
// readings of the gap are due together, once; where the clock is set back, the second showing
// does not count.
//
// running times, whose minute or hour begins with * ("*/15 * * * *", "0 */2 * * *", "* 2 * * *"): a reading is due
// whenever the clock shows it, so the distance in real time stays: skipped readings are not made up for, repeated
// ones count twice.
type (
	fixed struct {
		wallClock
		zone *time.Location
	}
	running struct {
		wallClock
		zone *time.Location
	}
)

// longestJump is more than any clock was ever moved, and more than any offset from UTC.
const longestJump = 26 * time.Hour

func (f fixed) next(t time.Time) time.Time {
	if f.zone == time.UTC {
		return f.wallClock.next(t)
	}
	due := f.wallClock.next(latestReading(t, f.zone))
	if due.IsZero() {
		return due
	}
	return firstShown(due, f.zone)
}

func (f fixed) count(after, until time.Time) int {
	total := f.between(latestReading(after, f.zone), latestReading(until, f.zone))
	if f.zone == time.UTC {
		return total
	}
	for p := steadyAt(after, f.zone); p.endsBy(until); {
		jump := p.end
		p = steadyAt(jump, f.zone)
		before := latestReading(jump.Add(-time.Second), f.zone)
		total -= max(f.between(before, p.reading(jump))-1, 0) // they are merged
	}
	return total
}

func (r running) next(t time.Time) time.Time {
	if r.zone == time.UTC {
		return r.wallClock.next(t)
	}
	p := steadyAt(t, r.zone)
	for {
		due := r.wallClock.next(p.reading(t))
		if due.IsZero() {
			return time.Time{}
		}
		if at := p.moment(due); !p.endsBy(at) {
			return at
		}
		t = p.end.Add(-time.Second)
		p = steadyAt(p.end, r.zone)
	}
}

func (r running) count(after, until time.Time) int {
	total := 0
	p := steadyAt(after, r.zone)
	for ; p.endsBy(until); p = steadyAt(p.end, r.zone) {
		last := p.end.Add(-time.Second)
		total += r.between(p.reading(after), p.reading(last))
		after = last
	}
	return total + r.between(p.reading(after), p.reading(until))
}

// steady is a time in which a zone's clock does not jump: from start, before end. Zero = no bound.
// It may be shorter than the whole time between two jumps.
type steady struct {
	start, end time.Time
	offset     time.Duration
}

func steadyAt(t time.Time, zone *time.Location) steady {
	local := t.In(zone)
	_, offset := local.Zone()
	start, end := local.ZoneBounds()
	// Bounds computed from a rule for all later years stop at the end of the year, and on the last
	// day of a leap year they stop before t itself (365 days are counted there).
	if !end.IsZero() && !end.After(t) {
		end = t.Truncate(time.Hour).Add(time.Hour)
	}
	return steady{start.UTC(), end.UTC(), time.Duration(offset) * time.Second}
}

func (p steady) endsBy(t time.Time) bool            { return !p.end.IsZero() && !p.end.After(t) }
func (p steady) reading(t time.Time) time.Time      { return t.UTC().Add(p.offset) }
func (p steady) moment(reading time.Time) time.Time { return reading.Add(-p.offset) }

// latestReading is the latest reading that the clock has shown up to t: what it shows at t, unless
// it was set back a short while ago.
func latestReading(t time.Time, zone *time.Location) time.Time {
	if zone == time.UTC {
		return t.UTC()
	}
	p := steadyAt(t, zone)
	latest := p.reading(t)
	for t.Sub(p.start) < longestJump { // where there is no start, the days that schedules know begin later than that
		last := p.start.Add(-time.Second)
		p = steadyAt(last, zone)
		if r := p.reading(last); r.After(latest) {
			latest = r
		}
	}
	return latest
}

// firstShown is the first moment at which the clock shows the reading or a later one.
func firstShown(reading time.Time, zone *time.Location) time.Time {
	p := steadyAt(reading.Add(-longestJump), zone)
	for {
		at := p.moment(reading)
		if at.Before(p.start) {
			return p.start // the jump went over it
		}
		if !p.endsBy(at) {
			return at
		}
		p = steadyAt(p.end, zone)
	}
}
