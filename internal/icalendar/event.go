package icalendar

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// event is one event as far as its times go.
type event struct {
	uid, title string
	cancelled  bool
	replaces   string // the start of the occurrence of its series that it stands for; "": it is none
	start      stamp
	allDay     bool
	long       length
	rule       *rrule.ROption // nil: it does not recur
	ruleText   string
	more, less []stamp // further occurrences, and those that are left out
}

// stamp is a time of an event.
type stamp struct {
	at   time.Time // of a day: its midnight in UTC
	text string    // as it is written, with its zone
}

// length is how long an event lasts: days of the calendar, and then time.
type length struct {
	days int
	time time.Duration
}

func (l length) String() string { return fmt.Sprintf("%dd%v", l.days, l.time) }

// titleOf names an event in messages.
func titleOf(e ical.Event) string {
	var parts []string
	for _, name := range []string{ical.PropDateTimeStart, ical.PropSummary} {
		if p := e.Props.Get(name); p != nil {
			parts = append(parts, p.Value)
		}
	}
	if p := e.Props.Get(ical.PropUID); p != nil && len(parts) == 0 {
		parts = append(parts, p.Value)
	}
	return clip.Quoted(strings.Join(parts, " "), 60)
}

// readers read the properties that say when an event is, in this order.
var readers = []struct {
	property string
	read     func(e *event, p ical.Prop, local *time.Location) error
}{
	{ical.PropUID, func(e *event, p ical.Prop, _ *time.Location) error {
		e.uid = p.Value
		return nil
	}},
	{ical.PropStatus, func(e *event, p ical.Prop, _ *time.Location) error {
		e.cancelled = strings.EqualFold(p.Value, string(ical.EventCancelled))
		return nil
	}},
	{ical.PropDateTimeStart, func(e *event, p ical.Prop, local *time.Location) (err error) {
		e.start, e.allDay, err = readStamp(p, p.Value, local)
		return err
	}},
	{ical.PropDateTimeEnd, func(e *event, p ical.Prop, local *time.Location) error {
		end, _, err := readStamp(p, p.Value, local)
		if e.allDay {
			e.long = length{days: int(end.at.Sub(e.start.at) / day)}
		} else {
			e.long = length{time: end.at.Sub(e.start.at)}
		}
		return err
	}},
	{ical.PropDuration, func(e *event, p ical.Prop, _ *time.Location) (err error) {
		e.long, err = readLength(p.Value)
		return err
	}},
	{ical.PropRecurrenceID, func(e *event, p ical.Prop, local *time.Location) error {
		if p.Params.Get("RANGE") != "" {
			return errors.New("RANGE is not supported; export the file without it")
		}
		s, _, err := readStamp(p, p.Value, local)
		e.replaces = key(s.at)
		return err
	}},
	{ical.PropRecurrenceRule, func(e *event, p ical.Prop, _ *time.Location) (err error) {
		if e.rule != nil {
			return errors.New("is there twice; make two events of it")
		}
		e.ruleText = p.Value
		e.rule, err = readRule(p.Value, e.start.at)
		return err
	}},
	{"EXRULE", func(*event, ical.Prop, *time.Location) error {
		return errors.New("is not supported; list the days in EXDATE")
	}},
	{ical.PropRecurrenceDates, func(e *event, p ical.Prop, local *time.Location) (err error) {
		e.more, err = readStamps(e.more, p, local)
		return err
	}},
	{ical.PropExceptionDates, func(e *event, p ical.Prop, local *time.Location) (err error) {
		e.less, err = readStamps(e.less, p, local)
		return err
	}},
}

func readEvent(e ical.Event, local *time.Location) (event, error) {
	one := event{title: titleOf(e)}
	if e.Props.Get(ical.PropDateTimeStart) == nil {
		return one, errors.New("has no DTSTART")
	}
	for _, r := range readers {
		for _, p := range e.Props.Values(r.property) {
			if err := r.read(&one, p, local); err != nil {
				return one, fmt.Errorf("%s: %w", r.property, err)
			}
		}
	}
	if one.long.days < 0 || one.long.time < 0 {
		return one, errors.New("ends before it starts")
	}
	if one.allDay && one.long.days == 0 { // a single day, which some programs write with itself as its end
		one.long.days = 1
	}
	return one, nil
}

const day = 24 * time.Hour

func key(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func readStamps(all []stamp, p ical.Prop, local *time.Location) ([]stamp, error) {
	for text := range strings.SplitSeq(p.Value, ",") {
		from, _, period := strings.Cut(text, "/")
		if period {
			return all, errors.New("periods are not supported; make an event of each")
		}
		s, _, err := readStamp(p, from, local)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// readStamp reads a date, a time in UTC, in the zone that the property names, or in the local one.
func readStamp(p ical.Prop, text string, local *time.Location) (s stamp, isDay bool, err error) {
	if at, err := time.Parse("20060102", text); err == nil {
		return stamp{at, text}, true, inRange(at)
	}
	if at, err := time.Parse("20060102T150405Z", text); err == nil {
		return stamp{at, text}, false, inRange(at)
	}
	named := p.Params.Get(ical.PropTimezoneID)
	if named != "" {
		if local, err = zone.Load(named); err != nil {
			return s, false, fmt.Errorf("time zone %s is not known by its IANA name, as Europe/London is; export the file with such names, or with whole days", clip.Quoted(named, 60))
		}
	}
	at, err := time.ParseInLocation("20060102T150405", text, local)
	if err != nil {
		return s, false, fmt.Errorf("%s is neither a date nor a time", clip.Quoted(text, 40))
	}
	return stamp{at, named + " " + text}, false, inRange(at)
}

func inRange(at time.Time) error {
	if year := at.Year(); year < 1900 || year > 9999 {
		return fmt.Errorf("the year %d is out of range 1900–9999", year)
	}
	return nil
}

var duration = regexp.MustCompile(`^\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?$`)

func readLength(text string) (length, error) {
	m := duration.FindStringSubmatch(text)
	if m == nil {
		return length{}, fmt.Errorf("%s is not a duration", clip.Quoted(text, 40))
	}
	var n [6]int
	for i := 1; i < len(m); i++ {
		n[i], _ = strconv.Atoi(m[i])
	}
	return length{n[1]*7 + n[2], time.Duration(n[3])*time.Hour + time.Duration(n[4])*time.Minute + time.Duration(n[5])*time.Second}, nil
}

// until is the end of an occurrence.
func (l length) until(from time.Time) time.Time { return from.AddDate(0, 0, l.days).Add(l.time) }

// content is what decides the times of the event, but for its zone if it has none of its own.
func (e event) content(without []string) string {
	texts := func(all []stamp) string {
		var some []string
		for _, s := range all {
			some = append(some, s.text)
		}
		slices.Sort(some)
		return strings.Join(some, ",")
	}
	without = slices.Clone(without)
	slices.Sort(without)
	return fmt.Sprintf("%s for %v rule %s more %s less %s without %s", e.start.text, e.long, e.ruleText, texts(e.more), texts(e.less), strings.Join(without, ","))
}

// occurrences are the times of the event, at most limit of them, without those that begin at the moments given.
func (e event) occurrences(without []string, limit int) ([]Span, error) {
	starts := []time.Time{e.start.at}
	if e.rule != nil {
		var err error
		if starts, err = recurring(*e.rule, limit); err != nil {
			return nil, err
		}
	}
	for _, s := range e.more {
		starts = append(starts, s.at)
	}
	if len(starts) > limit {
		return nil, tooMany()
	}
	gone := map[string]bool{}
	for _, at := range without {
		gone[at] = true
	}
	for _, s := range e.less {
		gone[key(s.at)] = true
	}
	var spans []Span
	for _, from := range starts {
		if !gone[key(from)] {
			spans = append(spans, Span{from.UTC(), e.long.until(from).UTC()})
		}
	}
	return spans, nil
}

func tooMany() error {
	return fmt.Errorf("with it there are more than %d occurrences until the end of 2099; give it an end (UNTIL or COUNT), or write it as weekly in the calendar", maxOccurrences)
}
