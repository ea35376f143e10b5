package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// Schedule is when a job is due: one or more expressions in one time zone. It does not change and
// may be used by several goroutines.
//
// An expression has 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds
// first. A field is a list of numbers, names (JAN, MON), ranges and steps. 0 and 7 are Sunday;
// ranges may wrap (FRI-MON, 22-2). Besides, in the day of month:
//
//   - L is the last day of the month, and L-3 three days before it
//   - 15W is the weekday, Monday to Friday, that is nearest to the 15th within the month, LW the last
//     weekday of the month, and L-3W the one nearest to three days before the last
//
// and in the day of week FRI#2 or 5#2 is the second Friday of the month, FRIL or 5L the last. A month
// that does not have the day (a fifth Friday, a 31st, 31W) is left out. In every field H is a number
// that a hash of the job's name chooses, see [Job.Compile].
//
// A field that begins with * is unrestricted, as in cron of Unix systems, whatever follows. If neither
// day field is, one of them is enough: "0 0 13 * FRI" is due on every 13th and on every Friday. Else a
// day has to match both: "0 0 */2 * MON" is due on odd days that are Mondays. ? is read as *.
//
// @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly are as usual; "@every 5m"
// is due at each multiple of five minutes since 1970, whatever the zone; "@at
// 2026-12-24T18:00:00+01:00" is due at that moment, once, and may be past.
//
// Where a zone's clock jumps ahead, due times that were skipped are due once, at the jump; where it
// is set back, they are due the first time only. Expressions whose minute or hour begins with *
// follow real time instead, as in ISC cron: nothing is made up for, and a repeated hour counts twice.
//
// The schedule of a job with StartsAt or EndsAt has no due times outside of them, and one with Spread has the moved ones, for all methods. That of a job with calendars has those
// that run, see [JobCalendars]; LeftOut has the others.
type Schedule struct {
	rules        []rule
	moments      []time.Time // of @at, in order
	starts, ends time.Time   // due times are from starts on, and before ends; zero: no bound
	closed       closures    // what calendars leave out
	barren       barren      // from when on nothing of it runs, if that is known
}

// rule is one expression that goes on for ever.
type rule interface {
	next(t time.Time) time.Time       // first due time after t
	count(after, until time.Time) int // due times after after, up to and including until
}

var (
	earliest = time.Date(1, time.January, 3, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, time.December, 30, 0, 0, 0, 0, time.UTC)
)

// maxSpecs is how many expressions a schedule may have.
const maxSpecs = 100

// ParseSchedule reads expressions in the IANA time zone with that name; "" is UTC. No expressions
// are a schedule that is never due. Errors are [ErrInvalid], name each field that is wrong, and
// say what to do; an expression that can never be due is one, and so is H, as there is no job:
// see [Job.Compile].
func ParseSchedule(specs []string, timezone string) (*Schedule, error) {
	return parseSchedule(specs, timezone, nil)
}

// parseSchedule is ParseSchedule for a job with that name, or without one.
func parseSchedule(specs []string, timezone string, job *string) (*Schedule, error) {
	zone, err := zone.Load(timezone)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(specs) > maxSpecs {
		return nil, fmt.Errorf("%w: %d schedules, at most %d are allowed", ErrInvalid, len(specs), maxSpecs)
	}
	var problems []error
	s := &Schedule{rules: make([]rule, 0, len(specs))}
	for i, spec := range specs {
		due, err := parseSpec(spec, zone, seed{job, i})
		switch {
		case err != nil:
			shown := strings.ToValidUTF8(spec[:min(len(spec), maxSpec)], "�")
			problems = append(problems, fmt.Errorf("%w schedule %q: %w", ErrInvalid, shown, err))
		case due.rule != nil:
			s.rules = append(s.rules, due.rule)
		default:
			s.moments = append(s.moments, due.moment)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	slices.SortFunc(s.moments, time.Time.Compare)
	s.moments = slices.CompactFunc(s.moments, time.Time.Equal)
	return s, nil
}

// Next returns the first due time after t, in UTC. It is zero if there is none before the end of
// the year 9999. With calendars it looks no further than 50 years beyond their last date, and 20,000 closures.
func (s *Schedule) Next(t time.Time) time.Time {
	if s.closed.none() {
		return s.nextDue(t)
	}
	return s.nextRun(t)
}

// nextDue is Next whatever calendars say.
func (s *Schedule) nextDue(t time.Time) time.Time {
	if t.Before(s.starts) {
		t = s.starts.Add(-time.Nanosecond)
	}
	first := s.recurs(t)
	if i := slices.IndexFunc(s.moments, t.Before); i >= 0 && (first.IsZero() || s.moments[i].Before(first)) {
		first = s.moments[i]
	}
	if !s.ends.IsZero() && !first.Before(s.ends) {
		return time.Time{}
	}
	return first
}

// recurs is the first due time of the rules after t.
func (s *Schedule) recurs(t time.Time) time.Time {
	if t.Before(earliest) {
		t = earliest
	}
	var first time.Time
	for _, r := range s.rules {
		if due := r.next(t); !due.IsZero() && due.Before(latest) && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// Between returns the due times after after, up to and including until, oldest first, at most
// limit of them; more says that there are others.
func (s *Schedule) Between(after, until time.Time, limit int) (due []time.Time, more bool) {
	for t := s.Next(after); !t.IsZero() && !t.After(until); t = s.Next(t) {
		if len(due) >= limit {
			return due, true
		}
		due = append(due, t)
	}
	return due, false
}

// Latest returns the latest n due times after after, up to and including until, oldest first.
// However long the time between is, only its end is looked at as far as needed; with calendars 50 years of it at most.
func (s *Schedule) Latest(after, until time.Time, n int) []time.Time {
	if s.closed.none() {
		return s.latestDue(after, until, n)
	}
	return s.backwards(later(after, until.Add(-farthest)), until, n, s.latestRuns)
}

// latestDue is Latest whatever calendars say.
func (s *Schedule) latestDue(after, until time.Time, n int) []time.Time {
	return s.backwards(after, until, n, func(after, until time.Time, _ int) (due []time.Time) {
		for t := s.nextDue(after); !t.IsZero() && !t.After(until); t = s.nextDue(t) {
			due = append(due, t)
		}
		return due
	})
}

// backwards is the end of what find finds; it asks for longer and longer times until that is enough.
func (s *Schedule) backwards(after, until time.Time, n int, find func(after, until time.Time, n int) []time.Time) []time.Time {
	if n <= 0 {
		return nil
	}
	after, until = s.within(after, until)
	for span := time.Duration(min(n, maxCounted)) * time.Second; ; span *= 4 {
		from := until.Add(-span)
		if span > 10*duration.Max || from.Before(after) {
			from = after
		}
		due := find(from, until, n)
		if len(due) >= n || !from.After(after) {
			return slices.Clone(due[max(len(due)-n, 0):])
		}
	}
}

// within is the part of a time that lies between starts and ends.
func (s *Schedule) within(after, until time.Time) (time.Time, time.Time) {
	if after.Before(s.starts) {
		after = s.starts.Add(-time.Nanosecond)
	}
	if !s.ends.IsZero() && !until.Before(s.ends) {
		until = s.ends.Add(-time.Nanosecond)
	}
	return after, until
}

// maxCounted bounds how many due times of several expressions are counted one by one.
const maxCounted = 1 << 17

// CountBetween counts the due times after after, up to and including until. For one expression,
// with any number of @at beside it, that is arithmetic, about 10 µs per year between. Due times of several have to be
// merged one by one; beyond 131,072 of them, more than a day of seconds, n is that and exact is false. With calendars each of their
// stretches between is counted so: an outage of ten years costs no walk through its minutes.
func (s *Schedule) CountBetween(after, until time.Time) (n int, exact bool) {
	if s.closed.none() {
		return s.countDue(after, until)
	}
	return s.countRuns(after, until)
}

// countDue is CountBetween whatever calendars say.
func (s *Schedule) countDue(after, until time.Time) (n int, exact bool) {
	after, until = s.within(after, until)
	n, exact = s.countRecurring(after, until)
	for _, at := range s.moments {
		if exact && at.After(after) && !at.After(until) && !s.recurs(at.Add(-time.Second)).Equal(at) {
			n++
		}
	}
	return n, exact
}

// countRecurring counts the due times of the rules.
func (s *Schedule) countRecurring(after, until time.Time) (n int, exact bool) {
	if after.Before(earliest) {
		after = earliest
	}
	if !until.Before(latest) {
		until = latest.Add(-time.Second)
	}
	if !until.After(after) {
		return 0, true
	}
	if len(s.rules) == 1 {
		return s.rules[0].count(after, until), true
	}
	for t := s.recurs(after); !t.IsZero() && !t.After(until); t = s.recurs(t) {
		if n == maxCounted {
			return n, false
		}
		n++
	}
	return n, true
}
