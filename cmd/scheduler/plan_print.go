package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
)

// plan is the output of plan.
type plan struct {
	File      string        `json:"file"`
	NewFile   string        `json:"new_file"`
	From      time.Time     `json:"from"` // due times after it, up to and including To, are compared
	To        time.Time     `json:"to"`
	Jobs      planNames     `json:"jobs"`
	Pools     planNames     `json:"pools"`
	Ping      []fieldChange `json:"ping,omitempty"`
	Due       []dueChange   `json:"due"`
	Overrides []override    `json:"overrides,omitempty"` // jobs of which somebody has set otherwise whether they are suspended, by --server
	Restart   []string      `json:"restart"`             // keys that differ, and that a replica reads at its start
}

// override is what holds in place of the suspend of a job in the new file.
type override struct {
	Job       string    `json:"job"`
	Defined   bool      `json:"suspended_defined"` // in the new file
	Suspended bool      `json:"suspended"`
	By        string    `json:"by,omitempty"`
	Until     time.Time `json:"until,omitzero"` // it ends then by itself
}

type planNames struct {
	Added   []string     `json:"added"`
	Removed []string     `json:"removed"`
	Changed []definition `json:"changed"`
}

type definition struct {
	Name   string        `json:"name"`
	Fields []fieldChange `json:"fields"`
}

type fieldChange struct {
	Field  string `json:"field"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
	Hidden bool   `json:"hidden,omitempty"` // what differs is not shown
}

type dueChange struct {
	Job     string       `json:"job"`
	New     int          `json:"new,omitempty"`
	Gone    int          `json:"gone,omitempty"`
	Moved   int          `json:"moved,omitempty"`
	AtLeast bool         `json:"at_least,omitempty"` // there may be more
	Times   []timeChange `json:"times"`              // the first ones
}

type timeChange struct {
	Old time.Time `json:"old,omitzero"` // absent: it is new
	New time.Time `json:"new,omitzero"` // absent: it is gone
}

func (p *plan) fill(c foresight.Changes) {
	p.Jobs, p.Pools, p.Due = planNamesOf(c.Jobs), planNamesOf(c.Pools), []dueChange{}
	for _, f := range c.Ping {
		p.Ping = append(p.Ping, fieldChange(f))
	}
	for _, d := range c.Due {
		one := dueChange{Job: d.Job, New: d.New, Gone: d.Gone, Moved: d.Moved, AtLeast: d.Inexact}
		for _, t := range d.Times {
			one.Times = append(one.Times, timeChange(t))
		}
		p.Due = append(p.Due, one)
	}
}

func planNamesOf(n foresight.Names) planNames {
	all := planNames{append([]string{}, n.Added...), append([]string{}, n.Removed...), []definition{}}
	for _, c := range n.Changed {
		d := definition{Name: c.Name}
		for _, f := range c.Fields {
			d.Fields = append(d.Fields, fieldChange(f))
		}
		all.Changed = append(all.Changed, d)
	}
	return all
}

func (p plan) write(w io.Writer) error {
	if !p.Jobs.any() && !p.Pools.any() {
		fmt.Fprintf(w, "%s changes no job and no pool of %s.\n", cellText(p.NewFile), cellText(p.File))
	} else {
		fmt.Fprintf(w, "%s changes %s: %s; %s.\n", cellText(p.NewFile), cellText(p.File), p.Jobs.counted("job"), p.Pools.counted("pool"))
	}
	if p.Jobs.any() || p.Pools.any() || len(p.Ping) > 0 {
		if err := p.definitions(w); err != nil {
			return err
		}
	}
	if len(p.Due) > 0 {
		fmt.Fprintf(w, "\nDue times until %s UTC\n", utc(p.To))
		err := table(w, "JOB NEW GONE MOVED FIRST(UTC)", p.Due, func(d dueChange) []string {
			least := ""
			if d.AtLeast {
				least = "≥ "
			}
			n := func(n int) string {
				if n == 0 {
					return ""
				}
				return least + fmt.Sprint(n)
			}
			return []string{d.Job, n(d.New), n(d.Gone), n(d.Moved), firstTimes(d)}
		})
		if err != nil {
			return err
		}
	}
	if len(p.Overrides) > 0 {
		fmt.Fprintf(w, "\nOverrides that hold over %s; 'scheduler jobs resume JOB --reset' removes one\n", cellText(p.NewFile))
		err := table(w, "JOB FILE HOLDS UNTIL(UTC) BY", p.Overrides, func(o override) []string {
			return []string{o.Job, activeOr(o.Defined), activeOr(o.Suspended), utc(o.Until), o.By}
		})
		if err != nil {
			return err
		}
	}
	if len(p.Restart) > 0 {
		fmt.Fprintf(w, "\nNeeds a restart: %s\n", strings.Join(p.Restart, ", "))
	}
	return nil
}

func activeOr(suspended bool) string {
	if suspended {
		return "suspended"
	}
	return "active"
}

// definitions has a line for each job and pool, and for ping, + added, - removed, ~ changed, and below what has changed one for each key.
func (p plan) definitions(w io.Writer) error {
	type line struct{ field, value string }
	var lines []line
	for _, kind := range []struct {
		noun string
		of   planNames
	}{{"job", p.Jobs}, {"pool", p.Pools}} {
		for _, name := range kind.of.Added {
			lines = append(lines, line{"+ " + kind.noun + " " + name, "added"})
		}
		for _, name := range kind.of.Removed {
			lines = append(lines, line{"- " + kind.noun + " " + name, "removed"})
		}
		for _, d := range kind.of.Changed {
			lines = append(lines, line{"~ " + kind.noun + " " + d.Name, "changed"})
			for _, f := range d.Fields {
				lines = append(lines, line{"    " + f.Field, fieldText(f)})
			}
		}
	}
	switch i := slices.IndexFunc(p.Ping, func(f fieldChange) bool { return f.Field == "every" }); { // each ping has it
	case len(p.Ping) == 0:
	case i >= 0 && p.Ping[i].Old == "":
		lines = append(lines, line{"+ ping", "added"})
	case i >= 0 && p.Ping[i].New == "":
		lines = append(lines, line{"- ping", "removed"})
	default:
		lines = append(lines, line{"~ ping", "changed"})
		for _, f := range p.Ping {
			lines = append(lines, line{"    " + f.Field, fieldText(f)})
		}
	}
	fmt.Fprintln(w)
	return table(w, "DEFINITION CHANGE", lines, func(l line) []string { return []string{l.field, l.value} })
}

// fieldText is what becomes of a key.
func fieldText(f fieldChange) string {
	switch was, is := cmp.Or(f.Old, "(not set)"), cmp.Or(f.New, "(not set)"); {
	case !f.Hidden:
		return was + " → " + is
	case f.Old == "" && f.New == "":
		return "changes; its value is not shown"
	case f.Old == f.New:
		return f.Old + ": changes in what is not shown"
	default:
		return was + " → " + is + ", and what is not shown"
	}
}

// firstTimes are the first due times that change.
func firstTimes(d dueChange) string {
	clock := func(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }
	var words []string
	for _, t := range d.Times[:min(planListed, len(d.Times))] {
		switch {
		case t.Old.IsZero():
			words = append(words, "+ "+clock(t.New))
		case t.New.IsZero():
			words = append(words, "- "+clock(t.Old))
		default:
			words = append(words, clock(t.Old)+" → "+clock(t.New))
		}
	}
	if d.New+d.Gone+d.Moved > len(words) {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

func (n planNames) any() bool { return len(n.Added)+len(n.Removed)+len(n.Changed) > 0 }

func (n planNames) counted(noun string) string {
	return fmt.Sprintf("%s added, %d removed, %d changed", count(len(n.Added), noun), len(n.Removed), len(n.Changed))
}
