package sim

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Replicas that go by another configuration than they say are found: each of these is how a rule would be broken.
func TestAMisreadConfigurationIsFound(t *testing.T) {
	lies := map[string]misreading{
		"spreads by another hash":            {rows, eachJob(func(j *jobs.Job) { j.Spread = j.Spread / 2 / time.Second * time.Second })},
		"starts before its bound":            {rows, eachJob(func(j *jobs.Job) { j.StartsAt = time.Time{} })},
		"goes on beyond its bound":           {rows, eachJob(func(j *jobs.Job) { j.EndsAt = time.Time{} })},
		"knows no zones":                     {rows, eachJob(func(j *jobs.Job) { j.Timezone = "" })},
		"makes tasks without their priority": {`has the priority`, eachJob(func(j *jobs.Job) { j.Priority = 0 })},
		"retries whatever failed": {`and is retried: only`, func(set *jobs.Set) {
			eachJob(func(j *jobs.Job) { j.Retries.On = nil })(set)
			for name, pool := range set.Pools {
				pool.Retries.On = nil
				set.Pools[name] = pool
			}
		}},
		"retries another code": {`is not retried, as if`, eachJob(func(j *jobs.Job) {
			if len(j.Retries.On) > 0 {
				j.Retries.On = []int{3}
			}
		})},
		"starts what has a calendar at once": {` starts at `, eachJob(func(j *jobs.Job) {
			if j.Calendars.Any() {
				j.Jitter = 0
			}
		})},
		"puts nothing off": {rows, eachJob(func(j *jobs.Job) { j.Calendars.Otherwise = jobs.OtherwiseSkip })},
		"runs a pool's tasks anywhere": {`where pool \w+ does not run`, func(set *jobs.Set) {
			for name, pool := range set.Pools {
				pool.RunsOn = nil
				set.Pools[name] = pool
			}
		}},
		"stops by another timeout": {`and its timeout by version`, eachJob(func(j *jobs.Job) { j.Timeout = 2 * time.Second })},
		"lets attempts go on":      {`and its timeout by version`, eachJob(func(j *jobs.Job) { j.Timeout += time.Second })},
		"retries once too often":   {`is retried after`, eachJob(func(j *jobs.Job) { j.Retries.Limit++ })},
		"retries once too seldom":  {`is not retried after`, eachJob(func(j *jobs.Job) { j.Retries.Limit = max(min(j.Retries.Limit, len(j.Retries.On)), j.Retries.Limit-1) })},
		"goes by one calendar of two": {rows, eachJob(func(j *jobs.Job) {
			if len(j.Calendars.Exclude) > 0 {
				j.Calendars.Only = nil
			}
		})},
		"runs a job anywhere":           {`where \w+ does not run`, eachJob(func(j *jobs.Job) { j.RunsOn = nil })},
		"makes up for what is too old":  {`and its window is`, eachJob(func(j *jobs.Job) { j.CatchUp.Window = 300 * 24 * time.Hour })},
		"gives up what is not too old":  {`and nothing stands for it|none is beyond the limit`, eachJob(func(j *jobs.Job) { j.CatchUp.Window /= 10 })},
		"makes up for one too many":     {`may be$`, eachJob(func(j *jobs.Job) { j.CatchUp.Limit++ })},
		"makes up for one too few":      {`none is beyond the limit`, eachJob(func(j *jobs.Job) { j.CatchUp.Limit = max(1, j.CatchUp.Limit-1) })},
		"makes up for all":              {`a later due time stood for it`, catchesUp(jobs.CatchUpLatest, jobs.CatchUpAll)},
		"makes up for the latest alone": {`none is beyond the limit`, catchesUp(jobs.CatchUpAll, jobs.CatchUpLatest)},
		"makes up for nothing":          {`nothing stands for it`, catchesUp(jobs.CatchUpLatest, jobs.CatchUpNone)},
		"makes up in spite of none":     {`its policy forbids`, catchesUp(jobs.CatchUpNone, jobs.CatchUpLatest)},
		"knows no grace":                {`and its cause is`, eachJob(func(j *jobs.Job) { j.CatchUp.Grace = time.Millisecond })},
	}
	for what, wrong := range misreadSchedules {
		lies[what] = misreading{rows, wrong}
	}
	for what, lie := range some(lies) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			lie.isFound(t, newPlan, 300)
		})
	}
	for what, wrong := range some(misreadDays) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			misreading{rows, wrong}.isFound(t, dated, 60)
		})
	}
}

// misreading is a way to read configurations, and what the judge says of it.
type misreading struct {
	want  string
	wrong func(*jobs.Set)
}

// rows is what is said where rows are not those of the due times.
const rows = "comes a row for|nothing covers|rows outside|not at rest|runs at .* by its calendars|counts"

func (m misreading) isFound(t *testing.T, plan func(seed uint64) *plan, seeds int) {
	isFound(t, seeds, m.want, func(seed uint64) *world {
		p := plan(seed)
		p.misread = m.wrong
		return simulate(t, p, saysWhatIsWritten(p))
	})
}

func catchesUp(policy, instead jobs.CatchUpPolicy) func(*jobs.Set) {
	return eachJob(func(j *jobs.Job) {
		if j.CatchUp.Policy == policy {
			j.CatchUp.Policy = instead
		}
	})
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
	hashes := map[string]string{} // by job or pool, and hash of what is misread
	for version := range p.versions() {
		written, read := p.configuration(version, nil), p.configuration(version, nil)
		p.misread(&read)
		asWritten, asRead := written.Compiler(), read.Compiler()
		for name := range written.Jobs {
			hashes[name+asRead.ScheduleHash(read.Jobs[name])] = asWritten.ScheduleHash(written.Jobs[name])
		}
		set := p.configuration(version, &handler{})
		set.Pools = maps.Clone(set.Pools)
		p.misread(&set)
		taken := loaded(set)
		for name, pool := range loaded(p.configuration(version, &handler{})) {
			hashes[name+"/"+taken[name].Hash()] = pool.Hash()
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
	d.Pools = slices.Clone(d.Pools)
	for i, p := range d.Pools {
		d.Pools[i].Hash = s.hashes[p.Name+"/"+p.Hash]
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

func (s says) admission(a ledger.Admission) ledger.Admission {
	a.Pools = maps.Clone(a.Pools)
	for name, share := range a.Pools {
		share.Hash = s.hashes[name+"/"+share.Hash]
		a.Pools[name] = share
	}
	return a
}

func (s says) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Admission = s.admission(c.Admission)
	return s.Store.Claim(ctx, c)
}

func (s says) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	d.Admission = s.admission(d.Admission)
	return s.Store.Decide(ctx, d)
}
