package api

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// unrunnable are due tasks that no live replica can run, as trouble.
func unrunnable(pools []ledger.PoolStatus) (all []ledger.Trouble) {
	for _, p := range pools {
		for _, u := range p.Unrunnable {
			if len(all) == overviewRows {
				return all
			}
			code, why := whyUnrunnable(p, u.Kind)
			all = append(all, ledger.Trouble{
				At: u.Since, State: ledger.StateUnrunnable, Pool: p.Name, Kind: u.Kind, Count: u.Tasks, Reason: why, ReasonCode: code,
			})
		}
	}
	return all
}

// whyUnrunnable is empty if some live replica can run tasks of the kind, or may be able to.
func whyUnrunnable(p ledger.PoolStatus, kind string) (reason.Code, string) {
	switch {
	case p.Hash == "":
		return reason.NoPool, "no live configuration has the pool: it will not run"
	case p.Kinds == nil || slices.Contains(p.Kinds, kind):
		return "", ""
	case slices.Contains(p.ByWorkers, kind):
		return reason.NoWorker, noWorker(p.Name, kind)
	case len(p.Kinds) == 0:
		return reason.NoHandler, "pool " + p.Name + " has no handler in any live replica: it will not run; " + ledger.GiveHandler
	case kind == "":
		return reason.NoHandler, "no live replica has a handler in the pool for tasks without a kind: it will not run"
	}
	return reason.NoHandler, "no live replica has kind " + quote(kind) + " in the pool: it will not run"
}

// noWorker is why a task that is for workers does not run.
func noWorker(pool, kind string) string {
	what := "tasks without a kind"
	if kind != "" {
		what = "kind " + quote(kind)
	}
	return "workers over HTTP run it, and no live one of pool " + pool + " takes " + what + ": it waits for one"
}

// whyNoLabels is empty if some live replica has the labels that a job or a pool requires, or if no replica is live.
func whyNoLabels(runsOn map[string]string, peers []ledger.Peer, of string) string {
	if !ledger.RunsNowhere(runsOn, peers) {
		return ""
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(runsOn)) {
		pairs = append(pairs, key+"="+runsOn[key])
	}
	return "no live replica has the labels that the " + of + " runs on (" + strings.Join(pairs, ", ") + "): it will not run"
}

// addJobReasons adds the reason to jobs that no live replica or worker runs.
func (s *server) addJobReasons(ctx context.Context, views []wire.Job) {
	asked := waiting{s: s, set: s.Replica.Set()}
	for i, v := range views {
		if v.Retired {
			continue
		}
		_, why, err := asked.ofJob(ctx, jobs.Task{Job: v.Name, Pool: v.Pool, Kind: v.Kind})
		if err != nil {
			return // what was asked for has an answer
		}
		views[i].Unrunnable = why
	}
}

// idlePools are due tasks of pools whose labels no live replica has, as trouble. Those of jobs are among the trouble of their job, too.
func (s *server) idlePools(ctx context.Context, peers []ledger.Peer, pools []ledger.PoolStatus) (all []ledger.Trouble, err error) {
	asked := waiting{s: s, set: s.Replica.Set(), peers: orEmpty(peers)}
	for _, p := range pools {
		if p.Pending == 0 || len(p.Unrunnable) > 0 || len(all) == overviewRows {
			continue
		}
		code, why, err := asked.withLabels(ctx, asked.set.RunsOn(p.Name, ""), "pool")
		if err != nil {
			return nil, err
		}
		if why != "" {
			all = append(all, ledger.Trouble{At: p.OldestPending, State: ledger.StateUnrunnable, Pool: p.Name, Count: p.Pending, Reason: why, ReasonCode: code})
		}
	}
	return all, nil
}

// idleMost bounds the tasks of a job that are counted.
const idleMost = 100

// idleJobs are due tasks of jobs whose labels no live replica has, or that are for workers of whom none lives, as trouble. While all jobs of this
// replica's configuration have one, the store is not asked.
func (s *server) idleJobs(ctx context.Context, peers []ledger.Peer, pools []ledger.PoolStatus, now time.Time) ([]ledger.Trouble, error) {
	known := s.upcoming()
	set := known.Set
	asked := waiting{s: s, set: set, peers: orEmpty(peers), pools: orEmpty(pools)}
	idle := map[string]ledger.Trouble{}
	for name, job := range set.Jobs {
		job = job.WithDefaults()
		if job.Handler != nil && len(set.RunsOn(job.Pool, name)) == 0 {
			continue
		}
		code, why, err := asked.ofJob(ctx, jobs.Task{Job: name, Pool: job.Pool, Kind: job.Kind})
		if err != nil {
			return nil, err
		}
		if why != "" {
			idle[name] = ledger.Trouble{State: ledger.StateUnrunnable, Job: name, Reason: why, ReasonCode: code}
		}
	}
	if len(idle) == 0 {
		return nil, nil
	}
	rows, err := s.store.Jobs(ctx, slices.Collect(maps.Keys(idle))...)
	if err != nil {
		return nil, err
	}
	var all []ledger.Trouble
	for _, row := range rows {
		if row.Open == 0 || row.Hash != known.Hash(row.Name) || len(all) == overviewRows {
			continue // nothing waits, or another configuration says where it runs
		}
		waiting, _, err := s.store.Tasks(ctx, wire.TaskFilter{Job: row.Name, State: jobs.StatePending, Page: wire.Page{Limit: idleMost}})
		if err != nil {
			return nil, err
		}
		t := idle[row.Name]
		for _, w := range waiting {
			if w.RunAt.After(now) {
				continue
			}
			if t.Count == 0 || w.RunAt.Before(t.At) {
				t.At = w.RunAt
			}
			t.Count, t.Pool, t.Kind = t.Count+1, w.Pool, w.Kind
		}
		if t.Count > 0 {
			all = append(all, t)
		}
	}
	return all, nil
}
