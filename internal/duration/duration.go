// Package duration reads durations as definitions write them.
package duration

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Max is the longest duration that a definition may name: a leap year.
const Max = 366 * 24 * time.Hour

// ErrTooLong: longer than [Max].
var ErrTooLong = errors.New("is longer than a year")

var (
	pattern = regexp.MustCompile(`^(?:(\d{1,6})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms|us|µs|ns))*)$`)
	bare    = regexp.MustCompile(`^\d+(?:\.\d+)?$`)
)

// Parse reads a duration as definitions write it: like [time.ParseDuration], with "d" for
// 24 hours in front ("1d12h"), without a sign, at most [Max]: else it is [ErrTooLong]. A number without a unit is
// refused, 0 too.
func Parse(s string) (time.Duration, error) {
	parts := pattern.FindStringSubmatch(s)
	if parts == nil || s == "" {
		if bare.MatchString(s) {
			return 0, fmt.Errorf("duration %q has no unit; did you mean %ss?", s, s)
		}
		return 0, fmt.Errorf("%q is not a duration; write it as in 90s, 5m, 1h30m or 2d", s)
	}
	days, _ := strconv.Atoi(parts[1])
	var rest time.Duration
	if parts[2] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[2]); err != nil {
			rest = Max + 1 // the pattern leaves one error only: too large
		}
	}
	if days > 366 || rest > Max-time.Duration(days)*24*time.Hour {
		return 0, fmt.Errorf("duration %q %w", s, ErrTooLong)
	}
	return time.Duration(days)*24*time.Hour + rest, nil
}
