package sim

import (
	"fmt"
	"strings"
	"time"
)

// times are the due times of a job, computed by arithmetic on intervals and not by the product's code.
type times []cycle

// cycle is due at phase after each multiple of period since 1970.
type cycle struct {
	period, phase time.Duration
	spec          string // as the product is told
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

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// next is the first due time after a moment.
func (ts times) next(after time.Time) (first time.Time) {
	for _, c := range ts {
		if at := c.next(after); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// count is how many due times lie in (after, until].
func (ts times) count(after, until time.Time) (n int) {
	if len(ts) == 1 {
		c := ts[0]
		last := floor(until.UnixNano()-int64(c.phase), int64(c.period))
		return max(0, int(last-floor(after.UnixNano()-int64(c.phase), int64(c.period))))
	}
	for at := ts.next(after); !at.IsZero() && !at.After(until); at = ts.next(at) {
		n++
	}
	return n
}

// due reports whether at is a due time.
func (ts times) due(at time.Time) bool { return ts.next(at.Add(-time.Nanosecond)).Equal(at) }

func (ts times) specs() (specs []string) {
	for _, c := range ts {
		specs = append(specs, c.spec)
	}
	return specs
}

func (ts times) String() string { return strings.Join(ts.specs(), " | ") }
