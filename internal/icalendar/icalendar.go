package icalendar

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-ical"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
)

// Limits of a file.
const (
	MaxSize        = 1 << 20 // bytes
	maxLine        = 64 << 10
	maxEvents      = 10_000
	maxRules       = 1000
	maxOccurrences = 100_000
)

// end is where events that recur for ever are cut off: what is known of a file does not depend on when it is read.
var end = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)

// Times are the times of all events of a file, in order and without overlaps.
type Times struct {
	Days  []Span // whole days, as midnights in UTC that stand for local ones
	Spans []Span // moments
	// Content tells files with other events from each other, sorted. It has nothing of what is not about their times, as names and the time
	// of the export, and depends neither on the time zone database nor on when the file was read.
	Content []string
}

// Span is the time from From on and before Until.
type Span struct{ From, Until time.Time }

// Read reads the text of a file. Events of whole days, and those whose times have no zone, are in the zone given.
//
// Events that were cancelled do not count, nor do to-dos, journals, free/busy times and alarms; whether an event is shown as free or busy does not
// matter. Events that recur do so until the end of 2099. A moved or cancelled occurrence replaces the one it names. An
// event without an end that is no whole day has no duration, and does not count.
//
// Errors say what is wrong in the first events that are, and what to do: too large a file, more than 10,000 events or 100,000 occurrences, zones
// that are no IANA names, rules that recur more often than daily.
func Read(text string, zone *time.Location) (t Times, err error) {
	defer func() { // no file may end a replica, whatever a library makes of it
		if p := recover(); p != nil {
			t, err = Times{}, fmt.Errorf("cannot be read: %v", p)
		}
	}()
	if err := legible(text); err != nil {
		return Times{}, err
	}
	file, err := ical.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))).Decode()
	if err != nil {
		return Times{}, fmt.Errorf("is not an iCalendar file: %s", clip.Quoted(strings.TrimPrefix(err.Error(), "ical: "), 200))
	}
	events := file.Events()
	if len(events) > maxEvents {
		return Times{}, fmt.Errorf("has %d events, at most %d are allowed", len(events), maxEvents)
	}
	var read []event
	var problems []error
	for _, e := range events {
		one, err := readEvent(e, zone)
		if err != nil {
			if problems = append(problems, fmt.Errorf("event %s: %w", titleOf(e), err)); len(problems) == 5 {
				break
			}
			continue
		}
		read = append(read, one)
	}
	if len(problems) > 0 {
		return Times{}, errors.Join(problems...)
	}
	return expand(read)
}

// legible refuses what the library would take too long to read.
func legible(text string) error {
	if len(text) > MaxSize {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(text), MaxSize)
	}
	length := 0
	for line := range bytes.Lines([]byte(text)) {
		if line[0] != ' ' && line[0] != '\t' {
			length = 0
		}
		if length += len(line); length > maxLine {
			return fmt.Errorf("has a line of more than %d bytes", maxLine)
		}
	}
	return nil
}

// expand is the times of all events.
func expand(all []event) (t Times, err error) {
	moved := map[string][]string{} // by the uid of a series, the starts of the occurrences that others replace
	rules, budget := 0, maxOccurrences
	for _, e := range all {
		if e.replaces != "" {
			moved[e.uid] = append(moved[e.uid], e.replaces)
		}
		if e.rule != nil {
			rules++
		}
	}
	if rules > maxRules {
		return Times{}, fmt.Errorf("has %d events that recur, at most %d are allowed", rules, maxRules)
	}
	for _, e := range all {
		var without []string
		if e.replaces == "" {
			without = moved[e.uid]
		}
		if e.cancelled {
			continue
		}
		t.Content = append(t.Content, e.content(without))
		spans, err := e.occurrences(without, budget)
		if err != nil {
			return Times{}, fmt.Errorf("event %s: %w", e.title, err)
		}
		budget -= len(spans)
		if e.allDay {
			t.Days = append(t.Days, spans...)
		} else {
			t.Spans = append(t.Spans, spans...)
		}
	}
	slices.Sort(t.Content)
	t.Days, t.Spans, t.Content = Merge(t.Days), Merge(t.Spans), slices.Compact(t.Content)
	return t, nil
}

// Merge sorts spans and joins those that touch or overlap; empty ones are dropped. It changes the slice.
func Merge(all []Span) []Span {
	slices.SortFunc(all, func(a, b Span) int { return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until)) })
	merged := all[:0]
	for _, s := range all {
		switch last := len(merged) - 1; {
		case !s.Until.After(s.From):
		case last < 0 || s.From.After(merged[last].Until):
			merged = append(merged, s)
		case s.Until.After(merged[last].Until):
			merged[last].Until = s.Until
		}
	}
	return merged
}
