package icalendar

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teambition/rrule-go"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
)

// Limits of a rule: within them the library comes to an end soon.
const (
	maxInterval = 1000
	maxCount    = 100_000
	maxList     = 400
	maxPerDay   = 24
)

// readRule reads an RRULE of an event that starts at a time.
func readRule(text string, start time.Time) (*rrule.ROption, error) {
	o, err := rrule.StrToROptionInLocation(strings.ToUpper(text), start.Location())
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", clip.Quoted(text, 80), err)
	}
	perDay := max(len(o.Byhour), 1) * max(len(o.Byminute), 1) * max(len(o.Bysecond), 1)
	switch {
	case o.Freq > rrule.DAILY:
		return nil, fmt.Errorf("FREQ=%v recurs more often than daily, which is not supported; write such hours as weekly in the calendar", o.Freq)
	case o.Interval < 0 || o.Interval > maxInterval:
		return nil, fmt.Errorf("INTERVAL=%d is out of range 1–%d", o.Interval, maxInterval)
	case o.Count < 0 || o.Count > maxCount:
		return nil, fmt.Errorf("COUNT=%d is out of range 1–%d", o.Count, maxCount)
	case len(o.Byeaster) > 0:
		return nil, errors.New("BYEASTER is not part of the standard; list the days in RDATE")
	case perDay > maxPerDay:
		return nil, fmt.Errorf("recurs %d times a day, at most %d are allowed; write such hours as weekly in the calendar", perDay, maxPerDay)
	case max(len(o.Bysetpos), len(o.Bymonth), len(o.Bymonthday), len(o.Byyearday), len(o.Byweekno), len(o.Byweekday)) > maxList:
		return nil, fmt.Errorf("has a list of more than %d items", maxList)
	}
	for _, d := range o.Byweekday {
		if n := d.N(); n != 0 && (o.Freq == rrule.MONTHLY || len(o.Bymonth) > 0) && (n < -5 || n > 5) {
			return nil, fmt.Errorf("BYDAY=%v: a month has at most five of these weekdays", d)
		}
	}
	if o.Until.IsZero() || o.Until.After(end) {
		o.Until = end.Add(-time.Second)
	}
	o.Dtstart = start
	if _, err := rrule.NewRRule(*o); err != nil {
		return nil, err
	}
	return o, nil
}

// recurring are the starts of the occurrences of a rule. The first one is that of the event, whether the rule has it or not.
func recurring(o rrule.ROption, limit int) ([]time.Time, error) {
	r, err := rrule.NewRRule(o)
	if err != nil {
		return nil, err
	}
	starts := []time.Time{o.Dtstart}
	next := r.Iterator()
	for at, more := next(); more; at, more = next() {
		if at.Equal(o.Dtstart) {
			continue
		}
		if starts = append(starts, at); len(starts) > limit {
			return nil, tooMany()
		}
	}
	return starts, nil
}
