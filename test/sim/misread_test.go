package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Replicas that go by another configuration than they say are found: each of these is how a rule would be broken.
func TestAMisreadConfigurationIsFound(t *testing.T) {
	const seeds = 300
	for what, wrong := range map[string]func(*jobs.Set){
		"spreads by another hash":            eachJob(func(j *jobs.Job) { j.Spread = j.Spread / 2 / time.Second * time.Second }),
		"starts before its bound":            eachJob(func(j *jobs.Job) { j.StartsAt = time.Time{} }),
		"goes on beyond its bound":           eachJob(func(j *jobs.Job) { j.EndsAt = time.Time{} }),
		"knows no zones":                     eachJob(func(j *jobs.Job) { j.Timezone = "" }),
		"makes tasks without their priority": eachJob(func(j *jobs.Job) { j.Priority = 0 }),
		"retries whatever failed": func(set *jobs.Set) {
			eachJob(func(j *jobs.Job) { j.Retries.On = nil })(set)
			for name, pool := range set.Pools {
				pool.Retries.On = nil
				set.Pools[name] = pool
			}
		},
		"retries another code": eachJob(func(j *jobs.Job) {
			if len(j.Retries.On) > 0 {
				j.Retries.On = []int{3}
			}
		}),
		"starts what has a calendar at once": eachJob(func(j *jobs.Job) {
			if j.Calendars.Any() {
				j.Jitter = 0
			}
		}),
		"puts nothing off": eachJob(func(j *jobs.Job) { j.Calendars.Otherwise = jobs.OtherwiseSkip }),
		"runs a pool's tasks anywhere": func(set *jobs.Set) {
			for name, pool := range set.Pools {
				pool.RunsOn = nil
				set.Pools[name] = pool
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				p := newPlan(seed + 1)
				p.misread = wrong
				if w := simulate(t, p, saysWhatIsWritten(p)); len(w.violations) > 0 {
					t.Logf("seed %d: %s", seed+1, w.violations[0].text)
					return
				}
			}
			t.Errorf("%d seeds have not shown it", seeds)
		})
	}
}

func eachJob(change func(*jobs.Job)) func(*jobs.Set) {
	return func(set *jobs.Set) {
		for name, j := range set.Jobs {
			change(&j)
			set.Jobs[name] = j
		}
	}
}

// saysWhatIsWritten has the store know schedules by their hashes as they are written.
func saysWhatIsWritten(p *plan) func(ledger.Store) ledger.Store {
	hashes := map[string]string{} // by job and hash of what is misread
	for version := range p.versions() {
		written, read := p.configuration(version, nil), p.configuration(version, nil)
		p.misread(&read)
		asWritten, asRead := written.Compiler(), read.Compiler()
		for name := range written.Jobs {
			hashes[name+asRead.ScheduleHash(read.Jobs[name])] = asWritten.ScheduleHash(written.Jobs[name])
		}
	}
	return func(s ledger.Store) ledger.Store { return says{s, hashes} }
}

type says struct {
	ledger.Store
	hashes map[string]string
}

func (s says) written(d ledger.Definitions) ledger.Definitions {
	d.Jobs = slices.Clone(d.Jobs)
	for i, j := range d.Jobs {
		d.Jobs[i].Schedule = s.hashes[j.Name+j.Schedule]
	}
	return d
}

func (s says) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Enter(ctx, session, s.written(d))
}

func (s says) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, s.written(d))
}

func (s says) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, s.written(d))
}
