package foresight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// calendarChanges are the calendars of two sets, and what is in them.
type calendarChanges struct {
	old, now      map[string]jobs.Calendar
	oldIn, nowsIn map[string]string // see jobs.Compiler
}

// datesShown is how many dates a change names.
const datesShown = 5

// of are the calendars that both definitions of a job name, and that have other times.
func (c calendarChanges) of(a, b jobs.Job) (all []FieldChange) {
	of := func(j jobs.Job) []string { return slices.Concat(j.Calendars.Exclude, j.Calendars.Only) }
	names := of(a)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !slices.Contains(of(b), name) || c.oldIn[name] == c.nowsIn[name] {
			continue
		}
		was, is := c.old[name].Dates, c.now[name].Dates
		all = append(all, FieldChange{"calendars." + name, c.oldIn[name] + dates(": without ", missing(was, is)), c.nowsIn[name] + dates(": with ", missing(is, was)), false})
	}
	return all
}

// missing are the dates of a list that another one does not have, in order.
func missing(of, in []string) (rest []string) {
	has := make(map[string]bool, len(in))
	for _, date := range in {
		has[date] = true
	}
	for _, date := range of {
		if !has[date] {
			rest = append(rest, date)
		}
	}
	slices.Sort(rest)
	return rest
}

func dates(words string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	text := words + strings.Join(all[:min(datesShown, len(all))], ", ")
	if more := len(all) - datesShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
