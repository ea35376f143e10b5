package sim

import "time"

// timeZone is one in 2000, as this table has it.
type timeZone struct {
	name   string
	offset time.Duration // when the year begins
	jumps  []clockJump
}

// clockJump is when a clock is moved, and its offset from UTC from then on.
type clockJump struct {
	at     time.Time
	offset time.Duration
}

func in2000(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2000, month, day, hour, minute, 0, 0, time.UTC)
}

// zones has each kind of jump: by an hour and by half of one, at night and at midnight, north and south.
var zones = []timeZone{
	{"", 0, nil},
	{"Asia/Kathmandu", 5*time.Hour + 45*time.Minute, nil},
	{"Europe/Berlin", time.Hour, []clockJump{{in2000(time.March, 26, 1, 0), 2 * time.Hour}, {in2000(time.October, 29, 1, 0), time.Hour}}},
	{"America/New_York", -5 * time.Hour, []clockJump{{in2000(time.April, 2, 7, 0), -4 * time.Hour}, {in2000(time.October, 29, 6, 0), -5 * time.Hour}}},
	{"America/Sao_Paulo", -2 * time.Hour, []clockJump{{in2000(time.February, 27, 2, 0), -3 * time.Hour}, {in2000(time.October, 8, 3, 0), -2 * time.Hour}}},
	{"Australia/Lord_Howe", 11 * time.Hour, []clockJump{{in2000(time.March, 25, 15, 0), 10*time.Hour + 30*time.Minute}, {in2000(time.August, 26, 15, 30), 11 * time.Hour}}},
}

// offsetAt is how far the clock of the zone is ahead of UTC.
func (z timeZone) offsetAt(t time.Time) time.Duration {
	offset := z.offset
	for _, j := range z.jumps {
		if !t.Before(j.at) {
			offset = j.offset
		}
	}
	return offset
}

// shows is what the clock shows at a moment, as a time in UTC.
func (z timeZone) shows(t time.Time) time.Time { return t.Add(z.offsetAt(t)) }

// firstShown is when the clock shows a reading for the first time: at the jump, if it jumps over it.
func (z timeZone) firstShown(reading time.Time) time.Time {
	offset := z.offset
	for _, j := range z.jumps {
		if at := reading.Add(-offset); at.Before(j.at) {
			return at
		} else if at = reading.Add(-j.offset); at.Before(j.at) {
			return j.at
		}
		offset = j.offset
	}
	return reading.Add(-offset)
}
