package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Plan is a Set made ready: defaults filled in, schedules parsed, hashes computed. Immutable.
type Plan struct {
	Set   jobs.Set
	Jobs  map[string]*Job
	Pools map[string]*Pool

	names    []string // of the jobs, sorted
	locked   int      // how many jobs have locks
	hasLocks bool
	starts   bool // somebody is told of starts
	defs     func() ledger.Definitions
	ahead    *foresight.Definitions

	calendars map[string]string // what is in each, see jobs.Compiler

	namespace atomic.Pointer[string]
}

// Job is a compiled job.
type Job struct {
	jobs.Job
	Payload  json.RawMessage // of its tasks
	given    any             // what that was made of
	Name     string
	Hash     string
	schedule string // hash of what decides its due times
	Stripe   int
	Times    *jobs.Schedule // nil: on demand only
	Executes jobs.Handler   // its own, or its pool's for its kind; nil: this replica has none
	here     bool           // this replica's labels match runs_on
	locks    []jobs.Lock    // its own, and those of its pool if it runs the pool's handler
	lockWait time.Duration
	notifier string       // kind of its notification tasks; "": it has none
	params   *jobs.Params // of the payload of runs by hand
}

// Accepts returns what is wrong with the payload of a run by hand, by the job's params and the keys of its locks: nil, or [*jobs.FieldError]s.
func (j *Job) Accepts(payload json.RawMessage) error {
	if err := j.params.Check(payload); err != nil {
		return err
	}
	return jobs.CheckLocks(j.locks, payload)
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
	here       bool              // this replica's labels match runs_on
}

// Execution is how to execute a task.
type Execution struct {
	Handler jobs.Handler
	Timeout time.Duration
	Retries jobs.Retries
	PauseOn jobs.PauseOn // of the pool
	Output  jobs.Output
}

// New compiles a set for a replica with these labels.
func New(set jobs.Set, labels map[string]string) (*Plan, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Set: kept(set), Jobs: map[string]*Job{}, Pools: map[string]*Pool{}}
	filled, compiler := set.WithDefaults(), set.Compiler()
	for name, pool := range filled.Pools {
		if name == naming.NotificationsPool {
			pool.Kinds = set.Notifiers()
		}
		compiled := &Pool{Pool: pool, Name: name, Hash: pool.Hash(), KindNames: []string{}, KindHashes: pool.HandlerHashes(), notifier: notifier(pool.Notify, "pool "+name)}
		compiled.here = ledger.Matches(pool.RunsOn, labels)
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
		if err := p.compile(compiler, name, job, labels); err != nil {
			return nil, err
		}
	}
	p.names = slices.Sorted(maps.Keys(p.Jobs))
	for _, j := range p.Jobs {
		p.starts = p.starts || j.Notify.Wants(jobs.EventStarted)
	}
	for _, pool := range p.Pools {
		p.starts = p.starts || pool.Notify.Wants(jobs.EventStarted)
	}
	p.calendars = compiler.Calendars()
	p.compiled()
	return p, nil
}

// compile adds a job that has its defaults.
func (p *Plan) compile(compiler *jobs.Compiler, name string, job jobs.Job, labels map[string]string) error {
	given := job.Payload
	payload, err := job.EncodePayload()
	if err != nil {
		return fmt.Errorf("jobs.%s: %w", name, err)
	}
	job.Payload = payload // the hash is of what tasks get
	j := &Job{Job: job, Payload: payload, given: given, Name: name, Hash: compiler.Hash(job), schedule: compiler.ScheduleHash(job), Stripe: ledger.Stripe(name), Executes: job.Handler}
	if j.params, err = job.CompileParams(); err != nil {
		return fmt.Errorf("jobs.%s: %w", name, err)
	}
	if len(job.Specs()) > 0 {
		schedule, err := compiler.Compile(name, job)
		if err != nil {
			return fmt.Errorf("jobs.%s: %w", name, err)
		}
		j.Times = schedule
	}
	if j.Executes == nil {
		j.Executes = p.Pools[job.Pool].handler(job.Kind)
	}
	j.here = ledger.Matches(p.Set.RunsOn(job.Pool, name), labels)
	j.notifier = notifier(job.Notify, "job "+name)
	j.locks, j.lockWait = p.Set.LocksOf(name)
	if j.HasLocks() {
		p.locked++
	}
	p.Jobs[name] = j
	return nil
}

// compiled is called when all jobs have been.
func (p *Plan) compiled() {
	p.hasLocks = p.locked > 0
	for _, pool := range p.Pools {
		p.hasLocks = p.hasLocks || len(pool.Locks) > 0
	}
	p.defs = sync.OnceValue(p.definitions)
	p.ahead = foresight.Define(p.Set, func(job string) *jobs.Schedule { return p.Jobs[job].Times }, func(job string) string { return p.Jobs[job].Hash })
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

// ScheduleHash is a hash of what decides the job's due times.
func (j *Job) ScheduleHash() string { return j.schedule }

// Next is the first due time after t, zero if there is none.
func (j *Job) Next(t time.Time) time.Time {
	if j.Times == nil {
		return time.Time{}
	}
	return j.Times.Next(t)
}

// Namespace is what jitter is drawn in, see jobs.Starts; empty until the plan is current and that is known.
func (p *Plan) Namespace() string {
	if n := p.namespace.Load(); n != nil {
		return *n
	}
	return ""
}

// Starts says when the triggers of the job start; see jobs.Starts for the namespace.
func (j *Job) Starts(namespace string) jobs.Starts { return j.Job.Starts(j.Times, j.Name, namespace) }

// Coming is when to decide what is due after the cursor, zero if there is nothing, and, of a job with jitter, the due time that starts then; see
// [jobs.Starts.Wakes].
func (j *Job) Coming(cursor time.Time, namespace string) (due, next time.Time) {
	if j.Times == nil {
		return time.Time{}, time.Time{}
	}
	return j.Starts(namespace).Wakes(cursor)
}

// NextFire is when the next due time after t fires, zero if there is none; see [jobs.Schedule.NextFire].
func (j *Job) NextFire(t time.Time) time.Time {
	if j.Times == nil {
		return time.Time{}
	}
	return j.Times.NextFire(t)
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
		return Execution{j.Executes, j.Timeout, j.Retries, p.PauseOn(t.Pool), j.Output}, true
	}
	pool, ok := p.Pools[t.Pool]
	if !ok {
		return Execution{}, false
	}
	if !pool.here && !anywhere {
		return Execution{}, false
	}
	h := pool.handler(t.Kind)
	if h == nil && t.Pool == naming.NotificationsPool {
		h = forward{p}
	}
	return own(t, Execution{h, pool.Timeout, pool.Retries, pool.PauseOn, pool.Output}), h != nil
}

// PauseOn is what pauses a pool; zero: nothing does, or this replica does not know the pool.
func (p *Plan) PauseOn(name string) jobs.PauseOn {
	if pool, ok := p.Pools[name]; ok {
		return pool.PauseOn
	}
	return jobs.PauseOn{}
}

// SuspendsAfter reports whether the job of a task is suspended when its runs fail in a row. Without a plan none is.
func (p *Plan) SuspendsAfter(t jobs.Task) bool {
	if p == nil {
		return false
	}
	j, known := p.Jobs[t.Job]
	return known && j.SuspendAfter > 0
}

// Tells reports whether a notification is sent of an event of a task, as far as this replica knows. Without a plan none is.
func (p *Plan) Tells(t jobs.Task, e jobs.Event) bool {
	if p == nil {
		return false
	}
	n, _, _ := p.notifies(jobs.Notification{Job: t.Job, Pool: t.Pool})
	return n.Wants(e)
}

// TellsStart is Tells of EventStarted; nil: no notification is sent of any.
func (p *Plan) TellsStart() func(t jobs.Task) bool {
	if !p.starts {
		return nil
	}
	return func(t jobs.Task) bool { return p.Tells(t, jobs.EventStarted) }
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

// next and due are those of the job's row; they ask for the namespace when they are called.
func (j *Job) next(p *Plan) func(cursor time.Time) time.Time {
	return func(cursor time.Time) time.Time {
		_, next := j.Coming(cursor, p.Namespace())
		return next
	}
}

// due is nil without jitter.
func (j *Job) due(p *Plan) func(cursor time.Time) time.Time {
	if j.Jitter == 0 {
		return nil
	}
	return func(cursor time.Time) time.Time {
		due, _ := j.Coming(cursor, p.Namespace())
		return due
	}
}

// Foresight is the set, and what was made of it, for those who ask what is to come.
func (p *Plan) Foresight() *foresight.Definitions { return p.ahead }

// Definitions is what the store keeps of the plan. The caller changes none of them.
func (p *Plan) Definitions() ledger.Definitions { return p.defs() }

func (p *Plan) definitions() ledger.Definitions {
	compiler := p.Set.Compiler()
	d := ledger.Definitions{
		Shown:       func(job string) json.RawMessage { return p.Jobs[job].ShownWithin(p.calendars) },
		OvertakenBy: func(o ledger.Overtaken) ([]jobs.Trigger, bool) { return p.overtaken(compiler, o) },
	}
	d.Jobs = make([]ledger.JobDef, 0, len(p.names))
	for _, name := range p.names {
		j := p.Jobs[name]
		d.Jobs = append(d.Jobs, ledger.JobDef{
			Name: name, Stripe: j.Stripe, Hash: j.Hash, Schedule: j.schedule, SuspendAfter: j.SuspendAfter, Next: j.next(p), Due: j.due(p),
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
	d.Hash = d.Content()
	return d
}
