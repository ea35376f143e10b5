package judge

import "time"

// dbTime is a time of the database; 0 is none.
func dbTime(µs int64) time.Time {
	if µs == 0 {
		return time.Time{}
	}
	return time.UnixMicro(µs).UTC()
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
