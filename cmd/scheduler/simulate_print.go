package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// simulated is the output of simulate.
type simulated struct {
	File      string    `json:"file"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`            // where counting ended
	Cut       bool      `json:"cut,omitempty"` // before the end of the range, as there were too many due times
	Jobs      int       `json:"jobs"`          // that were counted
	Suspended int       `json:"suspended"`     // that were not, and those on demand
	OnDemand  int       `json:"on_demand"`
	Due       int       `json:"due"`
	Starts    int       `json:"starts"`         // expected: due times that find no run under forbid
	Past      *past     `json:"past,omitempty"` // what the durations are known from

	Step     string         `json:"step"`
	Load     []loadStep     `json:"load"` // without the steps in which nothing is due and nothing runs
	Busiest  []busyMinute   `json:"busiest"`
	Overlaps []overlap      `json:"overlaps"`
	Clocks   []clockChanges `json:"clock_changes"`

	Calendars    []closing `json:"calendars"`
	CalendarsCut time.Time `json:"calendars_cut,omitzero"` // that list ends there, as there were too many

	zone  *time.Location
	steps []foresight.Step
	long  bool // a step is a day or longer
}

type loadStep struct {
	At      time.Time `json:"at"`
	Due     int       `json:"due"`
	Starts  int       `json:"starts"`
	Peak    int       `json:"peak"`              // most starts in a minute
	Running float64   `json:"running,omitempty"` // most at once, on average over a minute
}

type jobCount struct {
	Job   string `json:"job"`
	Count int    `json:"count"`
}

type busyMinute struct {
	At      time.Time  `json:"at"`
	Starts  int        `json:"starts"`
	Running float64    `json:"running,omitempty"`
	Jobs    []jobCount `json:"jobs"`
	More    int        `json:"more,omitempty"`
}

type overlap struct {
	Job         string           `json:"job"`
	Concurrency jobs.Concurrency `json:"concurrency"`
	Takes       string           `json:"takes"` // a Go duration that nine of ten runs kept within
	Due         int              `json:"due"`
	Overlapping int              `json:"overlapping"` // due times that find an earlier run

	beside bool
}

type clockChanges struct {
	At     time.Time        `json:"at"`
	Zone   string           `json:"timezone"`
	By     string           `json:"by"` // a Go duration; negative: the clock is set back
	Change foresight.Change `json:"change"`
	First  string           `json:"first"` // what the clock shows, or would have shown
	Jobs   []jobCount       `json:"jobs"`
	More   int              `json:"more,omitempty"`
}

type closing struct {
	At        time.Time  `json:"at"`             // the beginning of the range, if it was closed before
	Until     time.Time  `json:"until,omitzero"` // absent: for ever, as far as the calendars are known
	Calendars []string   `json:"calendars"`
	Skipped   int        `json:"skipped,omitempty"` // due times in the range
	Merged    int        `json:"merged,omitempty"`  // that become Runs, when it ends
	Runs      int        `json:"runs,omitempty"`
	Jobs      []jobCount `json:"jobs"`
	More      int        `json:"more,omitempty"`
}

// closingsShown is how many closures the table has.
const closingsShown = 30

// chartLines is how many lines the chart has at most, where the step is not given.
const chartLines = 48

var niceSteps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour,
}

// niceStep is the smallest step with which the chart of a range has chartLines at most.
func niceStep(length time.Duration) time.Duration {
	for _, step := range niceSteps {
		if length <= chartLines*step {
			return step
		}
	}
	return niceSteps[len(niceSteps)-1]
}

func (s *simulated) fill(all []foresight.Simulated, sim foresight.Simulation, shifts []foresight.Shift, closings []foresight.Closing, r simulatedRange) {
	s.From, s.To, s.Cut, s.Jobs, s.Due, s.Starts = sim.From, sim.To, sim.Cut, len(all), sim.Due, sim.Starts
	chart := r.step
	if chart == 0 {
		chart = niceStep(sim.To.Sub(sim.From))
	}
	s.steps, s.long = sim.Steps(chart), chart >= 24*time.Hour
	step := r.step
	if step == 0 {
		step = time.Minute
	}
	s.Step, s.Load = step.String(), []loadStep{}
	for _, one := range sim.Steps(step) {
		if one.Due > 0 || one.Running > 0 {
			s.Load = append(s.Load, loadStep{one.At, one.Due, one.Starts, one.Peak, rounded(one.Running)})
		}
	}
	s.Busiest, s.Overlaps, s.Clocks, s.Calendars = []busyMinute{}, []overlap{}, []clockChanges{}, []closing{}
	for _, b := range sim.Busiest(all, busiestShown, namesShown) {
		s.Busiest = append(s.Busiest, busyMinute{b.At, b.Starts, rounded(b.Running), counts(b.Jobs), b.More})
	}
	beside := map[string]bool{}
	for _, j := range all {
		beside[j.Name] = j.Beside
	}
	for _, o := range sim.Overlaps {
		s.Overlaps = append(s.Overlaps, overlap{o.Job, o.Concurrency, o.Long.Round(time.Millisecond).String(), o.Due, o.Found, beside[o.Job]})
	}
	for _, c := range closings {
		s.Calendars = append(s.Calendars, closing{c.At, c.Until, c.Calendars, c.Skipped, c.Merged, c.Runs, counts(c.Jobs), c.More})
	}
	for _, c := range shifts {
		s.Clocks = append(s.Clocks, clockChanges{c.At, c.Zone, c.By.String(), c.Change, c.First.Format("2006-01-02T15:04:05"), counts(c.Jobs), c.More})
	}
}

func (c closing) text() string {
	var parts []string
	if c.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", c.Skipped))
	}
	if c.Merged > 0 {
		parts = append(parts, fmt.Sprintf("%d become %d", c.Merged, c.Runs))
	}
	return strings.Join(parts, ", ")
}

func counts(of []foresight.JobCount) []jobCount {
	all := make([]jobCount, len(of))
	for i, c := range of {
		all[i] = jobCount(c)
	}
	return all
}

func rounded(n float64) float64 { return math.Round(n*100) / 100 }

func (s *simulated) write(w io.Writer) error {
	at := func(t time.Time) string { return t.In(s.zone).Format("Mon 2006-01-02 15:04 MST") }
	fmt.Fprintf(w, "%s to %s: %s, %s, %s.\n", at(s.From), at(s.To), count(s.Jobs, "job"), count(s.Due, "due time"), count(s.Starts, "expected start"))
	if left := s.Suspended + s.OnDemand; left > 0 {
		fmt.Fprintf(w, "Not counted: %d suspended, %d on demand.\n", s.Suspended, s.OnDemand)
	}
	if s.Past != nil {
		fmt.Fprintf(w, "Durations are known of %s, from %s.\n", count(s.Past.Jobs, "job"), count(s.Past.Runs, "run"))
	}
	if s.Due == 0 && len(s.Calendars) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := s.chart(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nBusiest minutes")
	err := table(w, "AT STARTS JOBS", s.Busiest, func(b busyMinute) []string {
		return []string{at(b.At), fmt.Sprint(b.Starts), someJobs(b.Jobs, b.More)}
	})
	if err == nil && len(s.Overlaps) > 0 {
		fmt.Fprintln(w, "\nDue times that find an earlier run")
		err = table(w, "JOB TAKES DUE OVERLAPPING WHAT", s.Overlaps, func(o overlap) []string {
			return []string{o.Job, o.Takes, fmt.Sprint(o.Due), fmt.Sprint(o.Overlapping), overlapText(o)}
		})
	}
	if err == nil && len(s.Calendars) > 0 {
		fmt.Fprintln(w, "\nClosures of calendars")
		err = table(w, "AT UNTIL CALENDARS DUE-TIMES JOBS", s.Calendars[:min(closingsShown, len(s.Calendars))], func(c closing) []string {
			until := "no end is known"
			if !c.Until.IsZero() {
				until = at(c.Until)
			}
			return []string{at(c.At), until, strings.Join(c.Calendars, ", "), c.text(), someJobs(c.Jobs, c.More)}
		})
		if more := len(s.Calendars) - closingsShown; more > 0 {
			fmt.Fprintf(w, "and %d more: -o json has all\n", more)
		}
	}
	if err == nil && len(s.Clocks) > 0 {
		fmt.Fprintln(w, "\nJumps of clocks")
		err = table(w, "AT ZONE CLOCK DUE-TIMES FIRST JOBS", s.Clocks, func(c clockChanges) []string {
			return []string{at(c.At), c.Zone, clockText(c.By), string(c.Change), strings.Replace(c.First, "T", " ", 1), someJobs(c.Jobs, c.More)}
		})
	}
	return err
}

// barWidth is the length of the longest bar.
const barWidth = 40

// chart has one line for each step; a bar is as long as the most starts in one of its minutes.
func (s *simulated) chart(w io.Writer) error {
	most, runs := 0, false
	for _, one := range s.steps {
		most, runs = max(most, one.Peak), runs || one.Running > 0
	}
	heading, layout := "FROM DUE STARTS A-MINUTE", "Mon 2006-01-02 15:04"
	if runs {
		heading = "FROM DUE STARTS RUNNING A-MINUTE"
	}
	if s.long {
		layout = "Mon 2006-01-02"
	}
	return table(w, heading, s.steps, func(one foresight.Step) []string {
		bar := strings.TrimSpace(strings.Repeat("█", (one.Peak*barWidth+most-1)/max(most, 1)) + fmt.Sprintf(" %d", one.Peak))
		cells := []string{one.At.In(s.zone).Format(layout), fmt.Sprint(one.Due), fmt.Sprint(one.Starts)}
		if runs {
			cells = append(cells, fmt.Sprintf("%.1f", one.Running))
		}
		return append(cells, bar)
	})
}

// namesOnLine is how many names of jobs a line has.
const namesOnLine = 8

func someJobs(all []jobCount, more int) string {
	var words []string
	for _, j := range all[:min(namesOnLine, len(all))] {
		if j.Count > 1 {
			words = append(words, fmt.Sprintf("%s ×%d", j.Job, j.Count))
		} else {
			words = append(words, j.Job)
		}
	}
	text := strings.Join(words, ", ")
	if more += len(all) - len(words); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// overlapText says what the job's policy makes of its due times that find an earlier run.
func overlapText(o overlap) string {
	n := fmt.Sprintf("%s: %d of %d ", o.Concurrency, o.Overlapping, o.Due)
	switch {
	case o.beside && o.Concurrency == jobs.Allow:
		return n + "run beside an earlier run"
	case o.beside:
		return n + "find an earlier run, and run beside it if max_running lets them"
	case o.Concurrency == jobs.Queue:
		return n + "wait for an earlier run, or are skipped if the queue is full"
	case o.Concurrency == jobs.Replace:
		return n + "end an earlier run"
	}
	return n + "are skipped"
}

func clockText(by string) string {
	if back, ok := strings.CutPrefix(by, "-"); ok {
		return back + " back"
	}
	return by + " ahead"
}
