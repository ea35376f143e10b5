package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// plan is a Set made ready: defaults filled in, schedules parsed, hashes computed. Immutable.
type plan struct {
	set   jobs.Set
	jobs  map[string]*jobPlan
	pools map[string]*poolPlan
}

type jobPlan struct {
	jobs.Job
	name     string
	hash     string
	stripe   int
	schedule *jobs.Schedule // nil: on demand only
	handler  jobs.Handler
	here     bool   // this replica's labels match runs_on
	notifier string // kind of the tasks that notify somebody; "": nobody
}

type poolPlan struct {
	jobs.Pool
	name     string
	hash     string
	kinds    []string          // that it has a handler for
	hashes   map[string]string // of them
	notifier string            // as a job's
}

// work is how a task is to be executed.
type work struct {
	handler jobs.Handler
	timeout time.Duration
	retries jobs.Retries
}

func newPlan(set jobs.Set, labels map[string]string) (*plan, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	p := &plan{set: set, jobs: map[string]*jobPlan{}, pools: map[string]*poolPlan{}}
	filled := set.WithDefaults()
	for name, pool := range filled.Pools {
		if name == naming.NotificationsPool {
			pool.Kinds = set.Notifiers()
		}
		p.pools[name] = &poolPlan{
			Pool: pool, name: name, hash: pool.Hash(), kinds: ledger.KindsOf(pool), hashes: pool.HandlerHashes(),
			notifier: notifier(pool.Notify, "pool "+name),
		}
	}
	for name, job := range filled.Jobs {
		j := &jobPlan{Job: job, name: name, hash: job.Hash(), stripe: ledger.Stripe(name), handler: job.Handler}
		if len(job.Specs()) > 0 {
			schedule, err := job.Compile()
			if err != nil {
				return nil, fmt.Errorf("jobs.%s: %w", name, err)
			}
			j.schedule = schedule
		}
		if j.handler == nil {
			j.handler = p.pools[job.Pool].handler(job.Kind)
		}
		j.here = ledger.Matches(job.RunsOn, labels)
		j.notifier = notifier(job.Notify, "job "+name)
		p.jobs[name] = j
	}
	return p, nil
}

func notifier(n jobs.Notify, owner string) string {
	if n.Handler == nil {
		return ""
	}
	return n.Kind(owner)
}

func (p *poolPlan) handler(kind string) jobs.Handler {
	if kind == "" {
		return p.Handler
	}
	return p.Kinds[kind]
}

// next is the first due time after t, zero if there is none.
func (j *jobPlan) next(t time.Time) time.Time {
	if j.schedule == nil {
		return time.Time{}
	}
	return j.schedule.Next(t)
}

// work says how to execute t here; false if this replica cannot: it does not know the job, the
// pool or the kind, or its labels do not match.
func (p *plan) work(t jobs.Task) (work, bool) {
	if t.Job != "" {
		j, ok := p.jobs[t.Job]
		if !ok || !j.here || j.handler == nil {
			return work{}, false
		}
		return work{j.handler, j.Timeout, j.Retries}, true
	}
	pool, ok := p.pools[t.Pool]
	if !ok {
		return work{}, false
	}
	h := pool.handler(t.Kind)
	if h == nil && t.Pool == naming.NotificationsPool {
		h = forward{p}
	}
	return work{h, pool.Timeout, *pool.Retries}, h != nil
}

// definitions is what the store keeps of the plan.
func (p *plan) definitions() ledger.Definitions {
	var d ledger.Definitions
	for _, name := range slices.Sorted(maps.Keys(p.jobs)) {
		j := p.jobs[name]
		d.Jobs = append(d.Jobs, ledger.JobDef{
			Name: name, Stripe: j.stripe, Hash: j.hash, Schedule: j.ScheduleHash(), Next: j.next,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.pools)) {
		pool := p.pools[name]
		def := ledger.PoolDef{
			Name: name, Hash: pool.hash, MaxRunning: pool.MaxRunning,
			MaxAttempts: pool.Retries.Limit + 1, Retry: pool.OnLost == jobs.LostRetries,
		}
		if name != naming.NotificationsPool { // what a newer configuration notifies somebody with is forwarded
			def.Kinds = pool.hashes
		}
		d.Pools = append(d.Pools, def)
	}
	return d
}
