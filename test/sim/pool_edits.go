package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawPoolEdits gives the newer configuration other limits of pools, and takes out one that no job uses: what is in it waits.
func (p *plan) drawPoolEdits(d draw) {
	if p.Edited == nil {
		return
	}
	p.EditedPools = maps.Clone(p.Pools)
	busy := map[string]bool{}
	for _, set := range p.versions() {
		for _, j := range set {
			busy[j.Pool] = busy[j.Pool] || j.Concurrency != jobs.Forbid // else few tasks of a job are there at once
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		_, used := busy[name]
		pool := p.Pools[name]
		switch n := d.IntN(6); {
		case n == 0 && !used && name != "default":
			delete(p.EditedPools, name)
			continue
		case n == 1 && !busy[name] && !p.Slow:
			pool.MaxRunning = 1 + d.IntN(4)
		case n == 2:
			pool.MaxRunning = 0
		case n == 3 && !p.Slow:
			pool.Rate, pool.Burst = jobs.Rate{Count: 5 + d.IntN(20), Per: time.Second}, d.IntN(4)
		case n == 4:
			pool.Workers += 2
		}
		p.EditedPools[name] = pool
	}
}

// removesPool reports whether the newer configuration lacks a pool.
func (p *plan) removesPool() bool { return p.EditedPools != nil && len(p.EditedPools) < len(p.Pools) }

// pools are those of a version.
func (p *plan) pools(version int) map[string]jobs.Pool {
	if version == 1 && p.EditedPools != nil {
		return p.EditedPools
	}
	return p.Pools
}

// workers is the most that a version gives to a pool.
func (p *plan) workers(pool string) int {
	return max(p.Pools[pool].WithDefaults().Workers, p.EditedPools[pool].WithDefaults().Workers)
}

// judgePoolGoverns: the row of a pool is as a version has it, and is not written while a live replica has a newer one. With w.mu held.
func (w *world) judgePoolGoverns(before, r memstore.Pool) {
	w.unknownPool[r.Name] = r.Hash == ""
	if r.Hash == before.Hash {
		return
	}
	for session, number := range w.loaded {
		if number > r.Config {
			w.violate(r.Name, "pool %s is as configuration %d has it, while session %s has %d", r.Name, r.Config, tail(session), number)
		}
	}
	if r.Hash == "" {
		w.counted["pools removed"]++
		return
	}
	for version := range w.plan.versions() {
		if is, in := loaded(w.plan.configuration(version, &handler{}))[r.Name]; in && is.Hash() == r.Hash {
			if rate, _ := jobs.ParseRate(cmp.Or(r.Rate, "0")); r.MaxRunning != is.MaxRunning || r.Burst != is.Burst || rate != is.Rate {
				w.violate(r.Name, "pool %s lets %d run, %s and %d at once; by its definition %d, %v and %d", r.Name, r.MaxRunning, r.Rate, r.Burst, is.MaxRunning, is.Rate, is.Burst)
			}
			if before.Hash != "" {
				w.counted["pools edited"]++
			}
			return
		}
	}
	w.violate(r.Name, "pool %s is as no version has it", r.Name)
}

// removed reports whether no configuration has the pool any more. Its tasks wait for its return.
func removed(rows memstore.Rows, pool string) bool { return rows.Pools[pool].Hash == "" }
