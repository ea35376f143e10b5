package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// times are the due times of a job, computed by arithmetic on intervals, or by a walk through days and minutes, and not by the product's code.
type times []rule

// rule is one expression.
type rule interface {
	next(after time.Time) time.Time   // the first due time after a moment, or never
	count(after, until time.Time) int // how many lie in (after, until]
	moved(by time.Duration) rule      // the same, later
	String() string                   // as the product is told
}

// never is later than all due times.
var never = time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC)

// cycle is due at phase after each multiple of period since 1970.
type cycle struct {
	period, phase time.Duration
	spec          string
}

// every is due at each multiple of period.
func every(period time.Duration) cycle {
	return cycle{period, 0, "@every " + period.String()}
}

// daily is due once a day, UTC.
func daily(hour, minute int) cycle {
	return cycle{24 * time.Hour, time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, fmt.Sprintf("%d %d * * *", minute, hour)}
}

// hourly is due once an hour.
func hourly(minute, second int) cycle {
	return cycle{time.Hour, time.Duration(minute)*time.Minute + time.Duration(second)*time.Second, fmt.Sprintf("%d %d * * * *", second, minute)}
}

func (c cycle) next(after time.Time) time.Time {
	return time.Unix(0, (floor(after.UnixNano()-int64(c.phase), int64(c.period))+1)*int64(c.period)+int64(c.phase)).UTC()
}

func (c cycle) count(after, until time.Time) int {
	last := floor(until.UnixNano()-int64(c.phase), int64(c.period))
	return max(0, int(last-floor(after.UnixNano()-int64(c.phase), int64(c.period))))
}

func (c cycle) moved(by time.Duration) rule {
	c.phase += by
	return c
}

func (c cycle) String() string { return c.spec }

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// once is due at one moment, which nothing moves.
type once struct {
	at   time.Time
	spec string
}

func (o once) next(after time.Time) time.Time {
	if after.Before(o.at) {
		return o.at
	}
	return never
}

func (o once) count(after, until time.Time) int {
	if after.Before(o.at) && !until.Before(o.at) {
		return 1
	}
	return 0
}

func (o once) moved(time.Duration) rule { return o }
func (o once) String() string           { return o.spec }

// bounded is due from starts on, and before ends. A zero one is no bound.
type bounded struct {
	rule
	starts, ends time.Time
}

func (b bounded) next(after time.Time) time.Time {
	if after.Before(b.starts) {
		after = b.starts.Add(-time.Nanosecond)
	}
	due := b.rule.next(after)
	if !b.ends.IsZero() && !due.Before(b.ends) {
		return never
	}
	return due
}

func (b bounded) count(after, until time.Time) int {
	if after.Before(b.starts) {
		after = b.starts.Add(-time.Nanosecond)
	}
	if !b.ends.IsZero() && !until.Before(b.ends) {
		until = b.ends.Add(-time.Nanosecond)
	}
	if !after.Before(until) {
		return 0
	}
	return b.rule.count(after, until)
}

// moved has the same bounds: they are for what is moved.
func (b bounded) moved(by time.Duration) rule { return bounded{b.rule.moved(by), b.starts, b.ends} }

// next is the first due time after a moment, or never.
func (ts times) next(after time.Time) time.Time {
	first := never
	for _, r := range ts {
		if at := r.next(after); at.Before(first) {
			first = at
		}
	}
	return first
}

// count is how many due times lie in (after, until].
func (ts times) count(after, until time.Time) (n int) {
	if len(ts) == 1 {
		return ts[0].count(after, until)
	}
	for at := ts.next(after); !at.After(until); at = ts.next(at) {
		n++
	}
	return n
}

// due reports whether at is a due time.
func (ts times) due(at time.Time) bool { return ts.next(at.Add(-time.Nanosecond)).Equal(at) }

// recur reports whether there are others than moments.
func (ts times) recur() bool {
	return slices.ContainsFunc(ts, func(r rule) bool { _, is := r.(once); return !is })
}

// regular reports whether all are due in cycles.
func (ts times) regular() bool {
	return !slices.ContainsFunc(ts, func(r rule) bool { _, is := r.(cycle); return !is })
}

func (ts times) specs() (specs []string) {
	for _, r := range ts {
		specs = append(specs, r.String())
	}
	return specs
}

func (ts times) String() string { return strings.Join(ts.specs(), " | ") }
