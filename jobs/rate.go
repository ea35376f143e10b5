package jobs

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// Rate is how many attempts of a pool may start, all replicas together: Count in each Per on average, and as many at once as the pool's
// burst. The zero Rate is no limit. As text it is "50/s", "100/m", "5/h", "1/d", "20/10s", or "0".
type Rate struct {
	Count int           // 1 to 1,000,000
	Per   time.Duration // 1 s to 24 h
}

var ratePattern = regexp.MustCompile(`^(\d+)/(.+)$`)

// ParseRate reads a rate as definitions write it. Its errors say what to write.
func ParseRate(text string) (Rate, error) {
	if text == "0" {
		return Rate{}, nil
	}
	parts := ratePattern.FindStringSubmatch(text)
	if parts == nil {
		return Rate{}, fmt.Errorf("%.80q is not a rate; write it as in 50/s, 100/m, 5/h or 20/10s, and 0 for no limit", text)
	}
	per := parts[2]
	if len(per) == 1 { // "s" is "1s"
		per = "1" + per
	}
	r := Rate{}
	var err error
	if r.Per, err = duration.Parse(per); err != nil {
		return Rate{}, fmt.Errorf("%.80q is not a rate: what follows the / is not a time; write s, m, h, d, or a duration as in 10s", text)
	}
	r.Count, _ = strconv.Atoi(parts[1]) // too large: the largest int
	if r.Count == 0 {
		r.Count = -1 // 0/s is no way to write that there is no limit
	}
	if problem := r.problem(); problem != "" {
		return Rate{}, fmt.Errorf("%.80q is not a rate: %s", text, problem)
	}
	return r, nil
}

// problem is what is wrong with a rate; "" if nothing is.
func (r Rate) problem() string {
	switch {
	case r == Rate{}:
	case r.Count < 1 || r.Count > limits.Rate:
		return fmt.Sprintf("the number is out of range; allowed: 1 to %d", limits.Rate)
	case r.Per < limits.RatePerLeast || r.Per > limits.RatePerMost:
		return "the time is out of range; allowed: 1s to 24h"
	}
	return ""
}

// String is the text that ParseRate reads, in its shortest form.
func (r Rate) String() string {
	if r == (Rate{}) {
		return "0"
	}
	per := r.Per.String()
	for _, u := range []struct {
		name string
		time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if r.Per == u.Duration {
			per = u.name
			break
		}
		if r.Per%u.Duration == 0 {
			per = fmt.Sprint(int64(r.Per/u.Duration), u.name)
			break
		}
	}
	return fmt.Sprint(r.Count, "/", per)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// Interval is the time from one start to the next at this rate, rounded up to nanoseconds: no rounding lets more start. 0 without
// a limit.
func (r Rate) Interval() time.Duration {
	if r.Count < 1 {
		return 0
	}
	return (r.Per + time.Duration(r.Count) - 1) / time.Duration(r.Count)
}

// OneSecond is how many may start in a second, at least 1: the burst of a pool that names none.
func (r Rate) OneSecond() int {
	if r.Count < 1 {
		return 0
	}
	return max(1, int(int64(r.Count)*int64(time.Second)/int64(r.Per)))
}

// MostBurst is the largest burst at this rate: one that is full again within a year.
func (r Rate) MostBurst() int {
	if r.Count < 1 {
		return limits.Burst
	}
	return min(limits.Burst, int(limits.RateFill/r.Interval()))
}
