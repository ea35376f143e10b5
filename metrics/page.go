package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// page is the result of one refresh.
type page struct {
	fixed    []prometheus.Metric  // the same until the next refresh
	oldest   map[string]time.Time // pending task of each pool; zero: none
	expires  time.Time            // older values are left out
	at       time.Time
	took     time.Duration
	failures int
}

// collect leaves out stale values, except those about the refresh.
func (p *page) collect(to chan<- prometheus.Metric, now time.Time) {
	to <- refreshFailures.of(float64(p.failures))
	if !p.at.IsZero() {
		to <- refreshed.of(float64(p.at.Unix()))
		to <- refreshDuration.of(p.took.Seconds())
	}
	if time.Now().After(p.expires) {
		return
	}
	for _, m := range p.fixed {
		to <- m
	}
	for pool, since := range p.oldest {
		age := 0.0
		if !since.IsZero() {
			age = max(0, now.Sub(since).Seconds())
		}
		to <- poolOldest.of(age, pool)
	}
}

// read reads a page from the store.
func (m *Metrics) read(ctx context.Context, plans plans) (*page, error) {
	p := &page{oldest: map[string]time.Time{}}
	pools, err := m.store.CountPools(ctx)
	if err != nil {
		return nil, err
	}
	standings, err := m.store.JobStandings(ctx)
	if err != nil {
		return nil, err
	}
	peers, err := m.store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	pause, err := m.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	p.add(paused.of(bit(pause.Is())))
	p.pools(pools)
	p.jobs(standings, plans)
	p.nowhere(standings, plans, peers)
	p.replicas(peers)
	return p, nil
}

func (p *page) add(m prometheus.Metric) { p.fixed = append(p.fixed, m) }

func (p *page) pools(pools []ledger.PoolStatus) {
	for _, pool := range pools {
		unrunnable := 0
		for _, u := range pool.Unrunnable {
			unrunnable += u.Tasks
		}
		if pool.Hash == "" && unrunnable == 0 {
			continue // retired
		}
		p.add(poolUnrunnable.of(float64(unrunnable), pool.Name))
		if pool.Hash == "" {
			continue
		}
		p.add(poolPending.of(float64(pool.Pending), pool.Name))
		p.add(poolScheduled.of(float64(pool.Scheduled), pool.Name))
		p.add(poolRunning.of(float64(pool.Running), pool.Name))
		p.add(poolPaused.of(bit(pool.Paused != nil && *pool.Paused), pool.Name))
		p.oldest[pool.Name] = pool.OldestPending
	}
}

// failingNamed bounds the series of failing jobs.
const failingNamed = 1000

func (p *page) jobs(standings []ledger.JobStanding, plans plans) {
	suspended, bad := 0, 0
	for _, j := range standings {
		if plans.suspended(j) {
			suspended++
		}
		if !j.LastSuccess.IsZero() {
			p.add(lastSuccess.of(float64(j.LastSuccess.Unix()), j.Name))
		}
		if by := plans.deadline(j); !by.IsZero() {
			p.add(deadline.of(float64(by.Unix()), j.Name))
		}
		if !j.Failing {
			continue
		}
		if bad++; bad <= failingNamed {
			p.add(failing.of(1, j.Name))
		}
	}
	p.add(jobsFailing.of(float64(bad)))
	p.add(jobCount.of(float64(len(standings)-suspended), "active"))
	p.add(jobCount.of(float64(suspended), "suspended"))
}

// nowhere returns the jobs that no live replica runs.
func (p *page) nowhere(standings []ledger.JobStanding, plans plans, peers []ledger.Peer) {
	n := 0
	for _, j := range standings {
		plan, known := plans[j.Name]
		if !known || plans.suspended(j) || n == failingNamed || !ledger.RunsNowhere(plan.RunsOn, peers) {
			continue
		}
		p.add(jobUnrunnable.of(1, j.Name))
		n++
	}
}

func (p *page) replicas(peers []ledger.Peer) {
	states := map[string]int{"live": 0, "draining": 0, "dead": 0}
	for _, peer := range peers {
		switch {
		case peer.Dead:
			states["dead"]++
		case peer.Draining:
			states["draining"]++
		default:
			states["live"]++
		}
	}
	for state, n := range states {
		p.add(replicas.of(float64(n), state))
	}
}
