package main

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	pastRows = 20_000 // of the ledger, for all jobs together
	pastJobs = 500    // without a row among these, which are asked for one by one
	pastRuns = 100    // of one job
)

// past says how much is known of how long runs take.
type past struct {
	Runs int `json:"runs"` // that were looked at
	Jobs int `json:"jobs"` // that have at least one of these
}

// pastLengths sets how long runs of the jobs take, by the latest ones in the ledger of the replica at --server. From the start of the first attempt
// to the end of the last one: as long, a run has its job's slot.
func (a *app) pastLengths(ctx context.Context, all []foresight.Simulated) (*past, error) {
	c, err := a.remote()
	if err != nil {
		return nil, err
	}
	runs := make(map[string][]time.Duration, len(all))
	for _, j := range all {
		runs[j.Name] = nil
	}
	rows, _, err := collect(pastRows, func(p wire.Page) (wire.List[jobs.Trigger], error) {
		return c.Triggers(ctx, wire.TriggerFilter{Outcome: jobs.Ran, Page: p})
	})
	if err != nil {
		return nil, err
	}
	addRuns(runs, rows)
	asked := 0
	for _, j := range all {
		if len(runs[j.Name]) > 0 || asked == pastJobs {
			continue
		}
		asked++
		list, err := c.Triggers(ctx, wire.TriggerFilter{Job: j.Name, Outcome: jobs.Ran, Page: wire.Page{Limit: pastRuns}})
		if errors.Is(err, jobs.ErrNotFound) { // a job of the file that is new
			continue
		}
		if err != nil {
			return nil, err
		}
		addRuns(runs, list.Items)
	}
	known := &past{}
	for i := range all {
		of := runs[all[i].Name]
		all[i].Typical, all[i].Long = foresight.Lengths(of)
		known.Runs += len(of)
		if len(of) > 0 {
			known.Jobs++
		}
	}
	return known, nil
}

// addRuns adds how long runs took, the latest first, of the jobs that are in the map.
func addRuns(runs map[string][]time.Duration, rows []jobs.Trigger) {
	for _, t := range rows {
		of, wanted := runs[t.Job]
		if wanted && len(of) < pastRuns && !t.StartedAt.IsZero() && t.FinishedAt.After(t.StartedAt) {
			runs[t.Job] = append(of, t.FinishedAt.Sub(t.StartedAt))
		}
	}
}
