package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// page is the result of one refresh.
type page struct {
	fixed    []prometheus.Metric  // the same until the next refresh
	oldest   map[string]time.Time // pending task of each pool; zero: none
	expires  time.Time            // what is older would be a lie
	at       time.Time
	took     time.Duration
	failures int
}

// collect leaves out stale values, except those about the refresh.
func (p *page) collect(to chan<- prometheus.Metric, s *standing, now time.Time) {
	s.gauge(to, refreshFailures, float64(p.failures))
	if !p.at.IsZero() {
		s.gauge(to, refreshed, float64(p.at.Unix()))
		s.gauge(to, refreshDuration, p.took.Seconds())
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
		s.gauge(to, poolOldest, age, pool)
	}
}

// read reads a page from the store.
func (m *Metrics) read(ctx context.Context, plans plans) (*page, error) {
	p := &page{oldest: map[string]time.Time{}}
	pools, err := m.store.Pools(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	standings, err := m.store.JobStandings(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	peers, err := m.store.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	p.pools(m.standing, pools)
	p.jobs(m.standing, standings, plans)
	p.nowhere(m.standing, standings, plans, peers)
	p.replicas(m.standing, peers)
	return p, nil
}

func (p *page) add(m prometheus.Metric) { p.fixed = append(p.fixed, m) }

func (p *page) pools(s *standing, pools []ledger.PoolStatus) {
	for _, pool := range pools {
		unrunnable := 0
		for _, u := range pool.Unrunnable {
			unrunnable += u.Tasks
		}
		if pool.Hash == "" && unrunnable == 0 {
			continue // retired
		}
		p.add(s.of(poolUnrunnable, float64(unrunnable), pool.Name))
		if pool.Hash == "" {
			continue
		}
		p.add(s.of(poolPending, float64(pool.Pending), pool.Name))
		p.add(s.of(poolScheduled, float64(pool.Scheduled), pool.Name))
		p.add(s.of(poolRunning, float64(pool.Running), pool.Name))
		p.add(s.of(poolPaused, bit(pool.Paused != nil && *pool.Paused), pool.Name))
		p.oldest[pool.Name] = pool.OldestPending
	}
}

// failingNamed bounds the series of failing jobs.
const failingNamed = 1000

func (p *page) jobs(s *standing, standings []ledger.JobStanding, plans plans) {
	suspended, bad := 0, 0
	for _, j := range standings {
		if plans.suspended(j) {
			suspended++
		}
		if !j.LastSuccess.IsZero() {
			p.add(s.of(lastSuccess, float64(j.LastSuccess.Unix()), j.Name))
		}
		if by := plans.deadline(j); !by.IsZero() {
			p.add(s.of(deadline, float64(by.Unix()), j.Name))
		}
		if !j.Failing {
			continue
		}
		if bad++; bad <= failingNamed {
			p.add(s.of(failing, 1, j.Name))
		}
	}
	p.add(s.of(jobsFailing, float64(bad)))
	p.add(s.of(jobCount, float64(len(standings)-suspended), "active"))
	p.add(s.of(jobCount, float64(suspended), "suspended"))
}

// nowhere returns the jobs that no live replica runs.
func (p *page) nowhere(s *standing, standings []ledger.JobStanding, plans plans, peers []ledger.Peer) {
	n := 0
	for _, j := range standings {
		plan, known := plans[j.Name]
		if !known || plans.suspended(j) || n == failingNamed || !ledger.RunsNowhere(plan.RunsOn, peers) {
			continue
		}
		p.add(s.of(jobUnrunnable, 1, j.Name))
		n++
	}
}

func (p *page) replicas(s *standing, peers []ledger.Peer) {
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
		p.add(s.of(replicas, float64(n), state))
	}
}
