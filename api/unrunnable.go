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
	return "workers run it, and no live worker of pool " + pool + " takes " + what + ": it waits for one"
}

// whyNoLabels is empty if some live replica has the labels that a job requires, or if no replica is live.
func whyNoLabels(runsOn map[string]string, peers []ledger.Peer) string {
	if !ledger.RunsNowhere(runsOn, peers) {
		return ""
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(runsOn)) {
		pairs = append(pairs, key+"="+runsOn[key])
	}
	return "no live replica has the labels that the job runs on (" + strings.Join(pairs, ", ") + "): it will not run"
}

// addLabelReasons adds the reason to jobs that no live replica runs.
func (s *server) addLabelReasons(ctx context.Context, views []wire.Job) {
	asked := waiting{s: s}
	for i, v := range views {
		if len(v.RunsOn) == 0 || v.Retired {
			continue
		}
		why, err := asked.noLabels(ctx, v.RunsOn)
		if err != nil {
			return // what was asked for has an answer
		}
		views[i].Unrunnable = why
	}
}

// unlabelledMost bounds the tasks of a job that are counted.
const unlabelledMost = 100

// unlabelled are due tasks of jobs whose labels no live replica has, as trouble. While all jobs of this replica's
// configuration have a replica, the store is not asked.
func (s *server) unlabelled(ctx context.Context, peers []ledger.Peer, now time.Time) ([]ledger.Trouble, error) {
	set := s.Replica.Set()
	var names []string
	for name, job := range set.Jobs {
		if len(job.RunsOn) > 0 && ledger.RunsNowhere(job.RunsOn, peers) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	rows, err := s.store.Jobs(ctx, names...)
	if err != nil {
		return nil, err
	}
	var all []ledger.Trouble
	for _, row := range rows {
		if row.Open == 0 || row.Hash != set.Jobs[row.Name].Hash() || len(all) == overviewRows {
			continue // nothing waits, or another configuration says where it runs
		}
		waiting, _, err := s.store.Tasks(ctx, wire.TaskFilter{Job: row.Name, State: jobs.StatePending, Page: wire.Page{Limit: unlabelledMost}})
		if err != nil {
			return nil, err
		}
		t := ledger.Trouble{State: ledger.StateUnrunnable, Job: row.Name, Reason: whyNoLabels(set.Jobs[row.Name].RunsOn, peers), ReasonCode: reason.NoReplica}
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
