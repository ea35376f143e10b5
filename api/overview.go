package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	overviewRows    = 30  // of each list
	overviewParts   = 100 // replicas, workers and pools
	overviewTimeout = 5 * time.Second
)

// overview reads the view of the first page. With an error the view still has this replica's readiness.
func (s *server) overview(ctx context.Context) (ledger.Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	id, readiness := s.Replica.ID(), s.readiness()
	view, err := s.store.Overview(ctx, overviewRows)
	view.Replica, view.Readiness = id, readiness
	if err != nil {
		return view, err
	}
	peers, err := s.store.Replicas(ctx)
	if err != nil {
		return view, err
	}
	workers, err := s.store.Workers(ctx)
	if err != nil {
		return view, err
	}
	pools, err := s.store.Pools(ctx)
	if err != nil {
		return view, err
	}
	waiting, err := s.idleJobs(ctx, peers, pools, view.At)
	if err != nil {
		return view, err
	}
	idle, err := s.idlePools(ctx, peers, pools)
	if err != nil {
		return view, err
	}
	view.Trouble = slices.Concat(unrunnable(pools), idle, waiting, view.Trouble)
	if _, view.Next, err = s.comingJobs(ctx, s.upcoming(), view.Next, overviewRows); err != nil {
		return view, err
	}
	view.Replicas, view.ReplicasTotal = overviewReplicas(peers, view.At), len(peers)
	view.Workers, view.WorkersTotal = overviewWorkers(workers, view.At), len(workers)
	view.Pools, view.PoolsTotal = s.overviewPools(pools)
	listAll(&view)
	return view, nil
}

func listAll(view *ledger.Overview) {
	view.Broken, view.Trouble, view.Next = orEmpty(view.Broken), orEmpty(view.Trouble), orEmpty(view.Next)
	view.Wrong = orEmpty(view.Wrong)
	view.Running, view.Recent = orEmpty(view.Running), orEmpty(view.Recent)
	view.Replicas, view.Workers, view.Pools = orEmpty(view.Replicas), orEmpty(view.Workers), orEmpty(view.Pools)
}

// orEmpty makes nil rows an empty JSON list.
func orEmpty[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

func overviewReplicas(peers []ledger.Peer, now time.Time) []wire.Replica {
	var views []wire.Replica
	for i, r := range ledger.Views(peers) {
		p := peers[i]
		r.Labels = nil // like what pools are left without: it may be long, and the lists have it
		if r.State == "live" && now.Sub(p.SeenAt) < p.TTL {
			r.SeenAt = time.Time{} // as it should be: no news
		}
		views = append(views, r)
	}
	slices.SortStableFunc(views, func(a, b wire.Replica) int { return cmp.Compare(a.ID, b.ID) })
	return views[:min(overviewParts, len(views))]
}

// overviewWorkers is sorted by id; of too many, those are kept that are late or dead, then those with tasks.
func overviewWorkers(all []ledger.WorkerStatus, now time.Time) []wire.Worker {
	var views []wire.Worker
	for _, p := range all {
		w := p.Worker()
		if w.State == "live" && now.Sub(p.SeenAt) < p.TTL {
			w.SeenAt = time.Time{} // as it should be: no news
		}
		views = append(views, w)
	}
	if len(views) > overviewParts {
		order := func(w wire.Worker) int {
			switch {
			case w.State != "live" || !w.SeenAt.IsZero():
				return 0
			case w.Running > 0:
				return 1
			}
			return 2
		}
		slices.SortStableFunc(views, func(a, b wire.Worker) int { return cmp.Compare(order(a), order(b)) })
		views = views[:overviewParts]
	}
	slices.SortFunc(views, func(a, b wire.Worker) int { return cmp.Compare(a.ID, b.ID) })
	return views
}

// overviewPools is sorted by name; of too many, those with tasks are kept.
func (s *server) overviewPools(rows []ledger.PoolStatus) (views []wire.Pool, total int) {
	set := s.Replica.Set()
	for _, row := range rows {
		if row.Hash != "" || row.Pending+row.Scheduled+row.Running > 0 {
			v := viewPool(set, row)
			v.Description, v.Kinds = "", nil
			views = append(views, v)
		}
	}
	total = len(views)
	if total > overviewParts {
		idle := func(p wire.Pool) int {
			if p.Paused || p.Pending+p.Running > 0 {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(views, func(a, b wire.Pool) int { return cmp.Compare(idle(a), idle(b)) })
		views = views[:overviewParts]
	}
	slices.SortFunc(views, func(a, b wire.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return views, total
}
