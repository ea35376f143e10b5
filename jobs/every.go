package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

// every is due at each multiple of its period since the Unix epoch, so that all replicas agree
// and a restart does not move the phase. Zones mean nothing to it. In seconds.
type every int64

func parseEvery(period string) (every, error) {
	d, err := duration.Parse(period)
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
