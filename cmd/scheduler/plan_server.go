package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// governing are the definitions of jobs that govern on a server, as it shows them.
type governing struct {
	shown   map[string]json.RawMessage
	unknown []string            // jobs without one in the history
	set     map[string]wire.Job // those that an override suspends or resumes
}

// planJobsMost is for how many jobs a server is asked: one request for each.
const planJobsMost = 10_000

func readGoverning(ctx context.Context, c *client.Client) (g governing, err error) {
	all, more, err := collect(planJobsMost, func(p wire.Page) (wire.List[wire.Job], error) { return c.Jobs(ctx, p) })
	if err != nil {
		return g, err
	}
	if more {
		return g, fmt.Errorf("the server has more than %d jobs, each of which is a request; compare with its file: scheduler plan -c FILE NEWFILE", planJobsMost)
	}
	g.shown = make(map[string]json.RawMessage, len(all))
	g.set = map[string]wire.Job{}
	for _, j := range all {
		if j.Override != nil {
			g.set[j.Name] = j
		}
		history, err := c.History(ctx, j.Name, wire.Page{Limit: 1})
		switch {
		case err != nil:
			return g, err
		case len(history.Items) == 0 || !history.Items[0].Until.IsZero():
			g.unknown = append(g.unknown, j.Name)
		default:
			g.shown[j.Name] = history.Items[0].Definition
		}
	}
	return g, nil
}

// planServer says what a file would change of the jobs that a server has: in the keys that it shows, and in due times.
func (a *app) planServer(ctx context.Context, server string, now *config.Config) (plan, bool, error) {
	p := plan{File: server, NewFile: now.Path, From: a.now().UTC(), To: a.now().Add(planRange).UTC(), Restart: []string{}}
	c, err := a.remote()
	if err != nil {
		return p, false, err
	}
	g, err := readGoverning(ctx, c)
	if err != nil {
		return p, false, a.explain(err)
	}
	set := now.Set.WithDefaults()
	calendars := set.Compiler().Calendars()
	var changes foresight.Changes
	old := jobs.Set{Name: set.Name, Calendars: set.Calendars, Jobs: map[string]jobs.Job{}}
	compared := jobs.Set{Name: set.Name, Calendars: set.Calendars, Jobs: map[string]jobs.Job{}}
	var apart []string // jobs whose due times of now are not known
	for _, name := range slices.Sorted(maps.Keys(g.shown)) {
		is, kept := set.Jobs[name]
		was, err := foresight.ReadShown(g.shown[name])
		known := err == nil && was.Within(calendars)
		if known {
			old.Jobs[name] = was.Job()
		} else {
			apart = append(apart, name)
		}
		if !kept {
			changes.Jobs.Removed = append(changes.Jobs.Removed, name)
			continue
		}
		if known {
			compared.Jobs[name] = is
		}
		if fields := shownChanges(g.shown[name], is.ShownWithin(calendars)); len(fields) > 0 {
			changes.Jobs.Changed = append(changes.Jobs.Changed, foresight.Changed{Name: name, Fields: fields})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set.Jobs)) {
		if _, has := g.shown[name]; !has && !slices.Contains(g.unknown, name) {
			changes.Jobs.Added = append(changes.Jobs.Added, name)
			compared.Jobs[name] = set.Jobs[name]
		}
	}
	p.Overrides = g.overrides(set.Jobs)
	g.hold(p.To, old.Jobs, compared.Jobs)
	times, err := foresight.Compare(old, compared, p.From, p.To, planTimes)
	if err != nil {
		return p, false, err
	}
	changes.Due = times.Due
	p.fill(changes)
	fmt.Fprintln(a.stderr, "note: a server shows no values that may be secret, and of other sections nothing that could be compared: jobs alone are, without these")
	for _, left := range []struct {
		words string
		names []string
	}{{"not compared, as the server has no history of them", g.unknown}, {"due times not compared, as the server has their calendars otherwise", apart}} {
		if n := len(left.names); n > 0 {
			fmt.Fprintf(a.stderr, "note: %s: %s\n", left.words, someNames(left.names))
		}
	}
	return p, changes.Any(), nil
}

// overrides are those that hold over a new file, where it says otherwise.
func (g governing) overrides(defined map[string]jobs.Job) (all []override) {
	for _, name := range slices.Sorted(maps.Keys(g.set)) {
		is := g.set[name]
		if job, kept := defined[name]; kept && job.Suspend != *is.Override {
			all = append(all, override{name, job.Suspend, *is.Override, is.SuspendedBy, is.SuspendedUntil})
		}
	}
	return all
}

// hold has jobs be suspended or not as overrides say, those that do not end before a time.
func (g governing) hold(until time.Time, each ...map[string]jobs.Job) {
	for name, is := range g.set {
		if !is.SuspendedUntil.IsZero() && is.SuspendedUntil.Before(until) {
			continue
		}
		for _, all := range each {
			if job, has := all[name]; has {
				job.Suspend = *is.Override
				all[name] = job
			}
		}
	}
}

// shownChanges are the keys in which two definitions differ, as they are shown.
func shownChanges(was, is json.RawMessage) (all []foresight.FieldChange) {
	for _, c := range wire.Changes(wire.Definition{Hash: "old", Definition: was}, wire.Definition{Hash: "new", Definition: is}) {
		if c.Field != wire.Hidden {
			all = append(all, foresight.FieldChange{Field: c.Field, Old: plainValue(c.From), New: plainValue(c.To)})
		}
	}
	return all
}
