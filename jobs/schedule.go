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
// ranges may wrap (FRI-MON, 22-2). If both day fields are restricted, one of them is enough; a
// field is not restricted only if it is * itself: "0 0 */2 * MON" is due on every odd day and on
// every Monday (as in Kubernetes; the cron of Unix systems reads it as "odd Mondays").
// @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly are as usual; "@every 5m"
// is due at each multiple of five minutes since 1970, whatever the zone.
//
// Where a zone's clock jumps ahead, due times with fixed hours that were skipped are due once, at
// the jump; where it is set back, they are due the first time only. Schedules whose hours are
// written with * or a step follow real time: nothing is made up for, and a repeated hour counts
// twice.
type Schedule struct {
	rules []rule
}

// rule is one expression.
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
// say what to do; an expression that can never be due is one.
func ParseSchedule(specs []string, timezone string) (*Schedule, error) {
	zone, err := zone.Load(timezone)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(specs) > maxSpecs {
		return nil, fmt.Errorf("%w: %d schedules, at most %d are allowed", ErrInvalid, len(specs), maxSpecs)
	}
	var problems []error
	s := &Schedule{rules: make([]rule, 0, len(specs))}
	for _, spec := range specs {
		r, err := parseSpec(spec, zone)
		if err != nil {
			shown := strings.ToValidUTF8(spec[:min(len(spec), maxSpec)], "�")
			problems = append(problems, fmt.Errorf("%w schedule %q: %w", ErrInvalid, shown, err))
		}
		s.rules = append(s.rules, r)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// Next returns the first due time after t, in UTC. It is zero if there is none before the end of
// the year 9999.
func (s *Schedule) Next(t time.Time) time.Time {
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
// However long the time between is, only its end is looked at as far as needed.
func (s *Schedule) Latest(after, until time.Time, n int) []time.Time {
	if n <= 0 {
		return nil
	}
	for span := time.Duration(min(n, maxCounted)) * time.Second; ; span *= 4 {
		from := until.Add(-span)
		if span > 10*duration.Max || from.Before(after) {
			from = after
		}
		due, _ := s.Between(from, until, 1<<62)
		if len(due) >= n || !from.After(after) {
			return slices.Clone(due[max(len(due)-n, 0):])
		}
	}
}

// maxCounted bounds how many due times of several expressions are counted one by one.
const maxCounted = 1 << 17

// CountBetween counts the due times after after, up to and including until. For one expression
// that is arithmetic, about 10 µs per year between. Due times of several expressions have to be
// merged one by one; beyond 131,072 of them, more than a day of seconds, n is that and exact is false.
func (s *Schedule) CountBetween(after, until time.Time) (n int, exact bool) {
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
	for t := s.Next(after); !t.IsZero() && !t.After(until); t = s.Next(t) {
		if n == maxCounted {
			return n, false
		}
		n++
	}
	return n, true
}
