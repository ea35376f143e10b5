package foresight

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Shown is what a definition that is shown, see [jobs.Job.Shown], says of when its job is due and when a due time starts.
type Shown struct {
	Schedules     []string          `json:"schedules"`
	Timezone      string            `json:"timezone"`
	StartsAt      time.Time         `json:"starts_at"`
	EndsAt        time.Time         `json:"ends_at"`
	Spread        jobs.Duration     `json:"spread"`
	Jitter        jobs.Duration     `json:"jitter"`
	Suspend       bool              `json:"suspend"`
	Calendars     jobs.JobCalendars `json:"calendars"`      // its keys differ in case alone
	CalendarTimes map[string]string `json:"calendar_times"` // what is in each, see jobs.Compiler
}

// nothing is JSON without anything in it.
var nothing = regexp.MustCompile(`^\s*(null|\{\s*\})\s*$`)

// ReadShown reads a definition that is shown. One that this program cannot read, or that shows nothing, is an error.
func ReadShown(definition json.RawMessage) (s Shown, err error) {
	if err = json.Unmarshal(definition, &s); err == nil && nothing.Match(definition) {
		err = errors.New("it shows nothing")
	}
	if err != nil {
		return Shown{}, fmt.Errorf("a definition that is shown: %w", err)
	}
	return s, nil
}

// SameTimes reports whether both have the same due times, and start them at the same times, as far as they show that. Whether a job is suspended is no
// question of times.
func (s Shown) SameTimes(as Shown) bool {
	s.Suspend, as.Suspend = false, false
	return reflect.DeepEqual(s, as)
}

// Within reports whether the calendars of the definition are known to have the times of these.
func (s Shown) Within(calendars map[string]string) bool {
	for _, name := range slices.Concat(s.Calendars.Exclude, s.Calendars.Only) {
		if s.CalendarTimes[name] == "" || s.CalendarTimes[name] != calendars[name] {
			return false
		}
	}
	return true
}

// Job is a job with these due times, and nothing else.
func (s Shown) Job() jobs.Job {
	return jobs.Job{
		Schedules: s.Schedules, Timezone: s.Timezone, StartsAt: s.StartsAt, EndsAt: s.EndsAt, Spread: time.Duration(s.Spread), Suspend: s.Suspend, Calendars: s.Calendars,
	}
}
