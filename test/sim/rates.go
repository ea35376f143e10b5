package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawRates gives pools a rate, and limits, of the pool, its keys and its kinds, that are changed for a while, in a third of all seeds. At every rate what is due comes to
// rest in time.
func (p *plan) drawRates(d draw) {
	if !d.chance(0.33) {
		return
	}
	rate := func() jobs.Rate { return jobs.Rate{Count: 5 + d.IntN(20), Per: time.Second} }
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if pool := p.Pools[name]; d.chance(0.5) {
			pool.Rate, pool.Burst = rate(), d.IntN(4)
			p.Pools[name] = pool
		}
		if d.chance(0.5) {
			s := step{At: d.between(0, p.Length).Truncate(time.Millisecond), Kind: limitsPool, Name: name, For: d.between(time.Second, 10*time.Second)}
			switch d.IntN(6) {
			case 0:
				s.Limits = &wire.PoolLimits{MaxRunning: new(1 + d.IntN(3))}
			case 1:
				s.Limits = &wire.PoolLimits{Rate: new(rate()), Burst: new(1)}
			case 2:
				s.Limits = &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(d.IntN(2)), Rate: new(rate()), Burst: new(1)}}
			case 3:
				s.Limits = &wire.PoolLimits{PerKind: map[string]wire.LimitFields{limitedKind: {MaxRunning: new(1)}}}
			case 4:
				s.Limits = &wire.PoolLimits{PerKind: map[string]wire.LimitFields{limitedKind: {MaxRunning: new(0), Rate: new(rate())}}, PerKey: &wire.LimitFields{MaxRunning: new(1)}}
			default:
				s.Limits = &wire.PoolLimits{Rate: new(jobs.Rate{}), MaxRunning: new(0)}
			}
			p.Steps = append(p.Steps, s)
		}
	}
}

// rated has the starts of a pool's tasks, by the database's clock, as long as neither its limits nor that clock were changed.
type rated struct {
	limits ledger.Limits
	offset time.Duration // of the clock
	at     []time.Time
}

// watchPool gets a pool's row.
func (w *world) watchPool(r memstore.Pool) {
	w.watchPoolKeys(r)
	w.watchPoolKinds(r)
	w.telling.hashes[r.Name] = r.Hash
	w.paused[r.Name] = r.Paused != nil && *r.Paused
	if s := w.rated[r.Name]; s == nil || s.limits != r.Limits() {
		w.rated[r.Name] = &rated{limits: r.Limits(), offset: w.offset}
	}
}

// watchStart gets a task that has become running. Over no stretch of time may more start than the burst, and what the rate gives in it.
func (w *world) watchStart(r memstore.Task) {
	s := w.rated[r.Pool]
	if limit := s.limits.MaxRunning; limit > 0 && w.inPool[r.Pool] > limit {
		w.violate(r.ID, "%d tasks run in pool %s, %d are allowed", w.inPool[r.Pool], r.Pool, limit)
	}
	if s.limits.Rate.Interval() > 0 {
		w.judgeRate(r, s)
	}
}

// judgeRate adds a start to those of a pool, or of a key of one.
func (w *world) judgeRate(r memstore.Task, s *rated) {
	interval := s.limits.Rate.Interval()
	if s.offset != w.offset {
		s.offset, s.at = w.offset, nil
	}
	now := w.shows().Truncate(time.Microsecond) // as the store has times
	s.at = append(s.at, now)
	burst := s.limits.Burst
	if burst == 0 {
		burst = s.limits.Rate.OneSecond()
	}
	for i, from := range s.at {
		if n, most := len(s.at)-i, burst+int(now.Sub(from)/interval); n > most {
			w.violate(r.ID, "%d tasks of pool %s were started in %v, %d are allowed", n, r.Pool, now.Sub(from), most)
		}
	}
	w.counted["rated"]++
}
