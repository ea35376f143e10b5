package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/icalendar"
	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var calendarKeys = schema[jobs.Calendar]{
	"dates":    listField(func(c *jobs.Calendar) *[]string { return &c.Dates }),
	"weekly":   readWeekly,
	"ics":      readICS,
	"timezone": func(r *reader, n *yaml.Node, c *jobs.Calendar) { r.zone(n, &c.Timezone) },
}

// jobCalendarKeys say which calendars a job goes by.
var jobCalendarKeys = schema[jobs.JobCalendars]{
	"exclude":   listField(func(c *jobs.JobCalendars) *[]string { return &c.Exclude }),
	"only":      listField(func(c *jobs.JobCalendars) *[]string { return &c.Only }),
	"otherwise": choiceField([]jobs.Otherwise{jobs.OtherwiseSkip, jobs.OtherwiseNext}, func(c *jobs.JobCalendars) *jobs.Otherwise { return &c.Otherwise }),
}

func (r *reader) readCalendars(n *yaml.Node) {
	r.c.Set.Calendars = map[string]jobs.Calendar{}
	r.each(n, func(key, value *yaml.Node) {
		named := r.reserve(&r.calendars, key, value)
		var c jobs.Calendar
		object(r, value, calendarKeys, &c)
		if named {
			r.c.Set.Calendars[key.Value] = c
		}
	})
}

// readWeekly takes one entry or a list.
func readWeekly(r *reader, n *yaml.Node, c *jobs.Calendar) {
	if deref(n).Kind != yaml.ScalarNode {
		c.Weekly = r.texts(n, r.text)
		return
	}
	if entry, ok := r.text(n); ok && entry != "" {
		c.Weekly = []string{entry}
	}
}

// readICS reads the file that the key names.
func readICS(r *reader, n *yaml.Node, c *jobs.Calendar) {
	path, ok := r.filePath(n)
	if !ok {
		return
	}
	file, ok := r.readFile(n, path, trustedfile.Rule{Limit: icalendar.MaxSize})
	if !ok {
		return
	}
	if len(file.Data) == 0 {
		r.fail(n, path+" is empty", "")
		return
	}
	c.ICS = string(file.Data)
}

// adviseNeverDue warns about jobs that their calendars never let run.
func (r *reader) adviseNeverDue(now time.Time) {
	for _, name := range r.c.Set.NeverDue(now) {
		r.advise("jobs."+name+".calendars", "no due time of its schedule is allowed by its calendars: it never runs, as far as they are known", "see when it is due and why not: scheduler next "+name)
	}
}
