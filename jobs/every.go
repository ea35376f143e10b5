package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// MaxDuration is the longest duration that a definition may name: a leap year.
const MaxDuration = 366 * 24 * time.Hour

var (
	durationPattern = regexp.MustCompile(`^(?:(\d{1,6})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms|us|µs|ns))*)$`)
	barePattern     = regexp.MustCompile(`^\d+(?:\.\d+)?$`)
)

// ParseDuration reads a duration as definitions write it: like [time.ParseDuration], with "d" for
// 24 hours in front ("1d12h"), without a sign, at most [MaxDuration]. A number without a unit is
// refused, 0 too.
func ParseDuration(s string) (time.Duration, error) {
	parts := durationPattern.FindStringSubmatch(s)
	if parts == nil || s == "" {
		if barePattern.MatchString(s) {
			return 0, fmt.Errorf("duration %q has no unit; did you mean %ss?", s, s)
		}
		return 0, fmt.Errorf("%q is not a duration; write it as in 90s, 5m, 1h30m or 2d", s)
	}
	days, _ := strconv.Atoi(parts[1])
	var rest time.Duration
	if parts[2] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[2]); err != nil {
			rest = MaxDuration + 1 // the pattern leaves one error only: too large
		}
	}
	if days > 366 || rest > MaxDuration-time.Duration(days)*24*time.Hour {
		return 0, fmt.Errorf("duration %q is longer than a year", s)
	}
	return time.Duration(days)*24*time.Hour + rest, nil
}

// every is due at each multiple of its period since the Unix epoch, so that all replicas agree
// and a restart does not move the phase. Zones mean nothing to it. In seconds.
type every int64

func parseEvery(period string) (every, error) {
	d, err := ParseDuration(period)
	switch {
	case err != nil:
		return 0, fmt.Errorf("@every: %w", err)
	case d < time.Second:
		return 0, errors.New("@every: the period must be at least 1s")
	case d%time.Second != 0:
		return 0, fmt.Errorf("@every: %s is not a whole number of seconds", period)
	}
	return every(d / time.Second), nil
}

func (e every) next(t time.Time) time.Time {
	return time.Unix((e.periods(t)+1)*int64(e), 0).UTC()
}

func (e every) count(after, until time.Time) int {
	return int(max(e.periods(until)-e.periods(after), 0))
}

// periods is how many whole periods lie between the epoch and t, rounded down.
func (e every) periods(t time.Time) int64 {
	n := t.Unix() / int64(e)
	if t.Unix()%int64(e) < 0 {
		n--
	}
	return n
}
