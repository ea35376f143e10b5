package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Plan is a Set made ready: defaults filled in, schedules parsed, hashes computed. Immutable.
type Plan struct {
	Set   jobs.Set
	Jobs  map[string]*Job
	Pools map[string]*Pool

	hasLocks bool
}

// Job is a compiled job.
type Job struct {
	jobs.Job
	Payload  json.RawMessage // of its tasks
	Name     string
	Hash     string
	Stripe   int
	Times    *jobs.Schedule // nil: on demand only
	Executes jobs.Handler   // its own, or its pool's for its kind; nil: this replica has none
	here     bool           // this replica's labels match runs_on
	locks    []jobs.Lock    // its own, and those of its pool if it runs the pool's handler
	lockWait time.Duration
	notifier string // kind of its notification tasks; "": it has none
}

// Pool is a compiled pool.
type Pool struct {
	jobs.Pool
	Name       string
	Hash       string
	KindNames  []string          // those with a handler, by which a replica runs tasks
	ByWorkers  []string          // those that workers run
	KindHashes map[string]string // of both
	notifier   string            // as a job's
}

// Execution is how to execute a task.
type Execution struct {
	Handler jobs.Handler
	Timeout time.Duration
	Retries jobs.Retries
	PauseOn jobs.PauseOn // of the pool
}

// New compiles a set for a replica with these labels.
func New(set jobs.Set, labels map[string]string) (*Plan, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Set: set, Jobs: map[string]*Job{}, Pools: map[string]*Pool{}}
	filled := set.WithDefaults()
	for name, pool := range filled.Pools {
		if name == naming.NotificationsPool {
			pool.Kinds = set.Notifiers()
		}
		compiled := &Pool{Pool: pool, Name: name, Hash: pool.Hash(), KindNames: []string{}, KindHashes: pool.HandlerHashes(), notifier: notifier(pool.Notify, "pool "+name)}
		for _, kind := range ledger.KindsOf(pool) {
			if jobs.IsWorker(compiled.handler(kind)) {
				compiled.ByWorkers = append(compiled.ByWorkers, kind)
			} else {
				compiled.KindNames = append(compiled.KindNames, kind)
			}
		}
		p.Pools[name] = compiled
	}
	for name, job := range filled.Jobs {
		payload, err := job.EncodePayload()
		if err != nil {
			return nil, fmt.Errorf("jobs.%s: %w", name, err)
		}
		job.Payload = payload // the hash is of what tasks get
		j := &Job{Job: job, Payload: payload, Name: name, Hash: job.Hash(), Stripe: ledger.Stripe(name), Executes: job.Handler}
		if len(job.Specs()) > 0 {
			schedule, err := job.Compile()
			if err != nil {
				return nil, fmt.Errorf("jobs.%s: %w", name, err)
			}
			j.Times = schedule
		}
		if j.Executes == nil {
			j.Executes = p.Pools[job.Pool].handler(job.Kind)
		}
		j.here = ledger.Matches(job.RunsOn, labels)
		j.notifier = notifier(job.Notify, "job "+name)
		j.locks, j.lockWait = set.LocksOf(name)
		p.Jobs[name] = j
	}
	p.hasLocks = p.WithLocks() != ""
	return p, nil
}

func notifier(n jobs.Notify, owner string) string {
	if n.Handler == nil {
		return ""
	}
	return n.Kind(owner)
}

func (p *Pool) handler(kind string) jobs.Handler {
	if kind == "" {
		return p.Handler
	}
	return p.Kinds[kind]
}

// Next is the first due time after t, zero if there is none.
func (j *Job) Next(t time.Time) time.Time {
	if j.Times == nil {
		return time.Time{}
	}
	return j.Times.Next(t)
}

// Execution says how to execute t on this replica; false if it cannot: it does not know the job, the
// pool or the kind, its labels do not match, or workers run it.
func (p *Plan) Execution(t jobs.Task) (Execution, bool) {
	e, known := p.execution(t, false)
	return e, known && !jobs.IsWorker(e.Handler)
}

// Anywhere says how t is executed where it may be, by a replica or a worker; false if this replica does not know the job, the pool or the kind.
func (p *Plan) Anywhere(t jobs.Task) (Execution, bool) { return p.execution(t, true) }

// ByWorker says how a worker executes t; false if this replica does not know the job, the pool or the kind, or replicas run it.
func (p *Plan) ByWorker(t jobs.Task) (Execution, bool) {
	e, known := p.execution(t, false)
	return e, known && jobs.IsWorker(e.Handler)
}

func (p *Plan) execution(t jobs.Task, anywhere bool) (Execution, bool) {
	if t.Job != "" {
		j, ok := p.Jobs[t.Job]
		if !ok || !j.here && !anywhere || j.Executes == nil {
			return Execution{}, false
		}
		return Execution{j.Executes, j.Timeout, j.Retries, p.PauseOn(t.Pool)}, true
	}
	pool, ok := p.Pools[t.Pool]
	if !ok {
		return Execution{}, false
	}
	h := pool.handler(t.Kind)
	if h == nil && t.Pool == naming.NotificationsPool {
		h = forward{p}
	}
	return own(t, Execution{h, pool.Timeout, pool.Retries, pool.PauseOn}), h != nil
}

// PauseOn is what pauses a pool; zero: nothing does, or this replica does not know the pool.
func (p *Plan) PauseOn(name string) jobs.PauseOn {
	if pool, ok := p.Pools[name]; ok {
		return pool.PauseOn
	}
	return jobs.PauseOn{}
}

// own is how a task is executed that has some of it itself.
func own(t jobs.Task, e Execution) Execution {
	if t.OwnAttempts > 0 {
		e.Retries.Limit = t.OwnAttempts - 1
	}
	if t.Timeout > 0 {
		e.Timeout = time.Duration(t.Timeout)
	}
	if t.Backoff > 0 {
		e.Retries.Backoff = time.Duration(t.Backoff)
		e.Retries.MaxBackoff = max(e.Retries.MaxBackoff, e.Retries.Backoff)
	}
	return e
}

// LimitsKind reports whether the pool of a task has limits for its kind. Without a plan none has.
func (p *Plan) LimitsKind(t jobs.Task) bool {
	if p == nil {
		return false
	}
	pool, ok := p.Pools[t.Pool]
	if !ok || t.Job != "" {
		return false
	}
	_, limited := pool.PerKind[t.Kind]
	return limited
}

// Definitions is what the store keeps of the plan.
func (p *Plan) Definitions() ledger.Definitions {
	var d ledger.Definitions
	for _, name := range slices.Sorted(maps.Keys(p.Jobs)) {
		j := p.Jobs[name]
		d.Jobs = append(d.Jobs, ledger.JobDef{
			Name: name, Stripe: j.Stripe, Hash: j.Hash, Schedule: j.ScheduleHash(), Next: j.Next,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		pool := p.Pools[name]
		def := ledger.PoolDef{
			Name: name, Hash: pool.Hash, MaxRunning: pool.MaxRunning, Rate: pool.Rate, Burst: pool.Burst,
			PerKey: pool.PerKey, PerKind: pool.PerKind, Order: pool.Order, Fair: pool.Fair,
			MaxAttempts: pool.Retries.Attempts(), Retry: pool.OnLost == jobs.LostRetries, LostLimit: pool.LostLimit,
		}
		if name != naming.NotificationsPool { // events of a newer configuration's notifiers are forwarded
			def.Kinds = pool.KindHashes
		}
		d.Pools = append(d.Pools, def)
	}
	return d
}
