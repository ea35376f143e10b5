package judge

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// codeCalendar is the code of due times that calendars leave out.
const codeCalendar = "calendar"

// How a reason names the calendar that leaves a due time out, and with otherwise: next the due time that runs for the closure.
var (
	excludes = regexp.MustCompile(`^calendar (\S+) excludes it(?:; the run of (\S+) stands for it)?$`)
	outside  = regexp.MustCompile(`^outside of calendar (\S+?)(?:; the run of (\S+) stands for it)?$`)
)

// leftOut returns what is wrong with a row of due times that a calendar leaves out: it names one of the job's that does so, and with Next the due time of the closure
// that runs: the last one, or the one at its end.
func (t *trial) leftOut(r history.Row, job history.Job) string {
	at := dbTime(r.At)
	if edited(r) && r.Reason == "the calendars that the job had left it out: "+strings.Join(slices.Concat(job.Exclude, job.Only), ", ") {
		return "" // they have changed since, or are gone
	}
	name, stands, in := "", "", false
	if m := excludes.FindStringSubmatch(r.Reason); m != nil && slices.Contains(job.Exclude, m[1]) {
		name, stands, in = m[1], m[2], true
	} else if m := outside.FindStringSubmatch(r.Reason); m != nil && slices.Contains(job.Only, m[1]) {
		name, stands = m[1], m[2]
	}
	switch {
	case name == "":
		return "it names no calendar of the job"
	case t.inCalendar(name, at) != in:
		return "that calendar does not"
	case stands != "" && !job.Next || stands == "" && job.Next && !t.reopens(job, at).IsZero():
		return "it does not say what runs for the closure"
	case stands != "" && t.standsFor(job, at).UTC().Format(time.RFC3339) != stands:
		return "that is not what runs for the closure"
	}
	return ""
}

// standsFor is the due time that runs for the closure in which another one lies.
func (t *trial) standsFor(job history.Job, closed time.Time) time.Time {
	end := t.reopens(job, closed)
	last := closed
	for due := dueNext(job.Due, closed); !due.After(end); due = dueNext(job.Due, due) {
		last = due
	}
	return last
}

// byCalendars is what is wrong with a row of the ledger, by the calendars of its job: a row of theirs has due times only that they leave out, any other one none of these.
func (t *trial) byCalendars(job history.Job, r history.Row, first, last time.Time) string {
	for due := first; !due.After(last); due = dueNext(job.Due, due) {
		_, runs := t.runsAt(job, due)
		switch {
		case runs && r.Code == codeCalendar:
			return "left out by a calendar, and " + due.UTC().Format(time.RFC3339) + " is not"
		case !runs && r.Code != codeCalendar && !(edited(r) && job.Next): // what was to run for it was overtaken, too
			return due.UTC().Format(time.RFC3339) + " is left out by a calendar, and not in this row"
		}
	}
	return ""
}
