package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Validate reports everything that is wrong with the set at once: nil, or joined [*FieldError]s in
// a stable order. Zero fields are right where they have a default.
func (s Set) Validate() error {
	var p problems
	if s.Name != "" {
		p.name("name", s.Name)
	}
	p.names("pools", slices.Sorted(maps.Keys(s.Pools)))
	for _, name := range slices.Sorted(maps.Keys(s.Pools)) {
		p.builtIn("pools."+name, name, s.Pools)
		p.pool("pools."+name, name, s.Pools[name])
		if name == naming.NotificationsPool {
			p.notifications("pools."+name, s.Pools[name])
		}
	}
	p.names("calendars", slices.Sorted(maps.Keys(s.Calendars)))
	p.calendars(s)
	names := slices.Sorted(maps.Keys(s.Jobs))
	p.names("jobs", names)
	for _, name := range names {
		p.jobOf(s, name)
	}
	p.ping("ping", s.Ping)
	p.apart(s)
	return p.err()
}

// jobOf checks one job of a set.
func (p *problems) jobOf(s Set, name string) {
	path, job := "jobs."+name, s.Jobs[name]
	p.job(path, name, job)
	p.work(path, job, s.Pools)
	p.keysOf(path, name, s)
	p.calendarsOf(path+".calendars", job, s.Calendars)
	pool := s.Pools[job.WithDefaults().Pool]
	p.runsBeside(path, job, pool)
	p.ofWorker(path, job, pool)
	p.codesOfJob(path, job, pool)
}

// names checks names that must differ in more than case.
func (p *problems) names(section string, names []string) {
	first := map[string]string{}
	for _, name := range names {
		path := section + "." + name
		p.name(path, name)
		if other, taken := first[strings.ToLower(name)]; taken {
			p.add(path, "differs from %s.%s only in capitals; names must be unique without regard to case", section, other)
			continue
		}
		first[strings.ToLower(name)] = name
	}
}

// builtIn refuses a pool whose name differs only in case from that of a pool which need not be defined.
func (p *problems) builtIn(path, name string, pools map[string]Pool) {
	for _, own := range []string{naming.DefaultPool, naming.NotificationsPool} {
		if _, defined := pools[own]; !defined && name != own && strings.EqualFold(name, own) {
			p.add(path, "differs from the built-in pool %s only in capitals; write %s to set its limits, or give this pool another name", own, own)
		}
	}
}

func (p *problems) pool(path, name string, pool Pool) {
	p.description(path, pool.Description)
	p.within(path+".workers", pool.Workers, 0, limits.Workers)
	p.within(path+".max_running", pool.MaxRunning, 0, limits.MaxRunning)
	p.rate(path, pool.Rate, pool.Burst)
	p.within(path+".per_key.max_running", pool.PerKey.MaxRunning, 0, limits.MaxRunning)
	p.rate(path+".per_key", pool.PerKey.Rate, pool.PerKey.Burst)
	p.perKind(path+".per_kind", pool)
	p.oneOf(path+".order", string(pool.Order), string(OrderNone), string(OrderKey))
	if pool.Fair != nil {
		for _, key := range slices.Sorted(maps.Keys(pool.Fair.Weights)) {
			if len(key) > limits.Key || !naming.Printable(key) {
				p.add(path+".fair.weights", "key %.80q must be at most %d bytes of printable text", key, limits.Key)
			}
			p.within(path+".fair.weights."+key, pool.Fair.Weights[key], 1, limits.Weight)
		}
	}
	if pool.Order == OrderKey && pool.PerKey.MaxRunning > 1 {
		p.add(path+".per_key.max_running", "with order: key the tasks of one key run one after the other; remove it, or write order: none")
	}
	if pool.PauseOn != (PauseOn{}) {
		p.within(path+".pause_on.failures", pool.PauseOn.Failures, 1, 100)
		p.within(path+".pause_on.of", pool.PauseOn.Of, 1, limits.PauseOn)
	}
	p.duration(path+".timeout", pool.Timeout)
	p.oneOf(path+".on_lost", string(pool.OnLost), string(LostFails), string(LostRetries))
	p.within(path+".lost_limit", pool.LostLimit, 0, limits.LostLimit)
	p.retries(path+".retries", pool.Retries)
	kinds := slices.Sorted(maps.Keys(pool.Kinds))
	p.names(path+".kinds", kinds)
	for _, kind := range kinds {
		p.kind(path+".kinds."+kind, name, kind, pool.Kinds[kind])
	}
	if pool.Handler != nil {
		p.kind(path, name, "", pool.Handler)
	}
	p.notify(path+".notify", pool.Notify)
	p.locks(path, pool.Locks, pool.LockWait)
	p.outputOf(path, pool.Output)
	p.labels(path+".runs_on", pool.RunsOn)
	p.workers(path, pool)
	p.codesOfPool(path, pool)
}

// perKind checks the limits of kinds. A pool without handlers may have them for kinds that others run.
func (p *problems) perKind(path string, pool Pool) {
	if len(pool.PerKind) > 0 && pool.Order == OrderKey {
		p.add(path, "does not go with order: key, where a task that its kind holds up would hold up its key; remove one of them")
	}
	if len(pool.PerKind) > 0 && pool.Fair != nil {
		p.add(path, "does not go with fair, as the tasks that wait for a kind start in the order of their priority and due time, whatever their keys; remove one of them")
	}
	for _, kind := range slices.Sorted(maps.Keys(pool.PerKind)) {
		l := pool.PerKind[kind]
		if _, has := pool.Kinds[kind]; !has && (len(pool.Kinds) > 0 || pool.Handler != nil) {
			p.add(path+"."+kind, "the pool has no kind %q; %s", kind, among(slices.Sorted(maps.Keys(pool.Kinds))))
		}
		p.within(path+"."+kind+".max_running", l.MaxRunning, 0, limits.MaxRunning)
		p.rate(path+"."+kind, l.Rate, l.Burst)
	}
}

func among(names []string) string {
	if len(names) == 0 {
		return "it has one handler and no kinds: write handlers of them in kinds, or remove the limit"
	}
	return "name one of its kinds: " + strings.Join(names, ", ")
}

func (p *problems) rate(path string, r Rate, burst int) {
	if problem := r.problem(); problem != "" {
		p.add(path+".rate", "%s", problem)
		return
	}
	if most := r.MostBurst(); burst > most && most < limits.Burst {
		p.add(path+".burst", "%d takes longer than a year to fill at %s; use at most %d", burst, r, most)
		return
	}
	p.within(path+".burst", burst, 0, limits.Burst)
}

// notifications checks the pool of that name: what its tasks do is not for the set to say.
func (p *problems) notifications(path string, pool Pool) {
	if pool.Handler != nil || len(pool.Kinds) > 0 || pool.Notify.Handler != nil || len(pool.Locks) > 0 || len(pool.RunsOn) > 0 || pool.PauseOn != (PauseOn{}) {
		p.add(path, "sends what notify of jobs and pools asks for, and nothing else; only its limits can be set, so remove what it does, or give it another name")
	}
}

func (p *problems) notify(path string, n Notify) {
	for i, event := range n.On {
		at := fmt.Sprintf("%s.on[%d]", path, i)
		p.oneOf(at, cmp.Or(string(event), "nothing"), string(EventFailed), string(EventMissed), string(EventLost), string(EventRecovered), string(EventPaused), string(EventSuspended), string(EventLate), string(EventStarted), string(EventSucceeded))
		if slices.Contains(n.On[:i], event) {
			p.add(at, "%.80q is given twice; remove one", event)
		}
	}
	if n.Handler == nil {
		if len(n.On) > 0 {
			p.add(path, "names events and no way to send them; give it a Handler")
		}
		return
	}
	if own, ok := unwrap.As[KindHandler](n.Handler); p.present(path, n.Handler) && ok {
		p.add(path, "has the handler of kind %.80q of pool %.80q, and gets notifications; use jobs.Func", own.kind, own.pool)
	}
}

func (p *problems) job(path, name string, job Job) {
	p.description(path, job.Description)
	rules := p.schedules(path, name, job)
	p.bounds(path, job)
	p.spread(path+".spread", job)
	p.jitter(path+".jitter", job, rules)
	payload := p.payload(path+".payload", job.Payload)
	if params := p.params(path+".params", job.Params); payload != nil && string(payload) != "null" {
		p.ownPayload(path+".payload", params, payload)
	}
	p.duration(path+".timeout", job.Timeout)
	p.slots(path, job)
	p.oneOf(path+".on_lost", string(job.OnLost), string(LostFails), string(LostRetries))
	p.within(path+".lost_limit", job.LostLimit, 0, limits.LostLimit)
	p.oneOf(path+".catch_up.policy", string(job.CatchUp.Policy), string(CatchUpNone), string(CatchUpLatest), string(CatchUpAll))
	p.duration(path+".catch_up.window", job.CatchUp.Window)
	p.duration(path+".catch_up.grace", job.CatchUp.Grace)
	p.within(path+".catch_up.limit", job.CatchUp.Limit, 0, limits.CatchUp)
	p.retries(path+".retries", job.Retries)
	if job.Priority < -limits.Priority || job.Priority > limits.Priority {
		p.add(path+".priority", "%d is out of range −%d…%d; larger ones are claimed first, and 0 is the default", job.Priority, limits.Priority, limits.Priority)
	}
	p.within(path+".suspend_after", job.SuspendAfter, 0, limits.SuspendAfter)
	p.labels(path+".runs_on", job.RunsOn)
	p.labels(path+".labels", job.Labels)
	p.notify(path+".notify", job.Notify)
	p.expect(path+".expect", job.Expect)
	p.locks(path, job.Locks, job.LockWait)
	p.outputOf(path, job.Output)
}

// slots checks how many runs there may be at once, and what becomes of those beyond.
func (p *problems) slots(path string, job Job) {
	p.oneOf(path+".concurrency", string(job.Concurrency), string(Forbid), string(Allow), string(Queue), string(Replace))
	p.within(path+".max_running", job.MaxRunning, 0, limits.MaxRunning)
	p.within(path+".queue_limit", job.QueueLimit, 0, limits.QueueLimit)
	if job.MaxRunning != 0 && job.Concurrency == Allow {
		p.add(path+".max_running", "has no effect with concurrency: allow, which lets any number run at once; remove it, or write concurrency: forbid, queue or replace")
	}
	if job.QueueLimit != 0 && job.Concurrency != Queue {
		p.add(path+".queue_limit", "has no effect without concurrency: queue; write that, or remove it")
	}
}

// work checks that there is exactly one handler for what the job does.
func (p *problems) work(path string, job Job, pools map[string]Pool) {
	name := job.WithDefaults().Pool
	pool, known := pools[name]
	if name == naming.NotificationsPool {
		p.add(path+".pool", "%s is for notifications alone; use another pool", name)
		return
	}
	if !known && name != naming.DefaultPool {
		defined := slices.Sorted(maps.Keys(pools))
		if !slices.Contains(defined, naming.DefaultPool) {
			defined = append([]string{naming.DefaultPool}, defined...)
		}
		p.add(path+".pool", "there is no pool %.80q; defined are %s", name, some(defined))
		return
	}
	if job.Handler != nil && !p.present(path, job.Handler) {
		return
	}
	switch own, ofKind := unwrap.As[KindHandler](job.Handler); {
	case job.Handler != nil && job.Kind != "":
		p.add(path+".kind", "chooses among the handlers of pool %s, but the job has a handler of its own; remove one of them", name)
	case ofKind && own.pool != name:
		p.add(path, "has the handler of kind %.80q of pool %.80q, and its pool is %.80q; name that kind and that pool in place of the handler, or use jobs.Func", own.kind, own.pool, name)
	case job.Handler != nil:
	case job.Kind != "" && pool.Kinds[job.Kind] == nil:
		kinds := slices.Sorted(maps.Keys(pool.Kinds))
		p.add(path+".kind", "pool %s has no kind %.80q; it has %s", name, job.Kind, some(kinds))
	case job.Kind == "" && pool.Handler == nil:
		p.add(path, "has nothing to do: neither it nor its pool %s has a handler; give it a Handler, or the Kind of one that its pool has", name)
	}
}

// some lists names for people.
func some(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 10:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}

func (p *problems) retries(path string, r Retries) {
	if r.Limit != NoRetries {
		p.within(path+".limit", r.Limit, 0, limits.Retries)
	}
	p.duration(path+".backoff", r.Backoff)
	p.duration(path+".max_backoff", r.MaxBackoff)
	if r = r.withDefaults(); r.Backoff > r.MaxBackoff {
		p.add(path+".backoff", "%v is longer than max_backoff, %v; make it shorter, or max_backoff longer", r.Backoff, r.MaxBackoff)
	}
}

func (p *problems) within(path string, n, low, high int) {
	if n < low || n > high {
		p.add(path, "%d is out of range %d–%d", n, low, high)
	}
}

func (p *problems) duration(path string, d time.Duration) {
	switch {
	case d < 0:
		p.add(path, "%v is negative; leave it out for the default", d)
	case d > duration.Max:
		p.add(path, "%v is longer than a year", d)
	}
}

func (p *problems) oneOf(path, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		p.add(path, "%.80q is unknown; use %s", value, strings.Join(allowed, " or "))
	}
}

// withoutBreaks is made once: making a replacer costs more than the rest of a job's checks.
var withoutBreaks = strings.NewReplacer("\n", "", "\t", "")

func (p *problems) description(path, text string) {
	oneLine := withoutBreaks.Replace(text)
	if len(text) > limits.Description || !naming.Printable(oneLine) {
		p.add(path+".description", "must be at most %d bytes of text", limits.Description)
	}
}

func (p *problems) labels(path string, all map[string]string) {
	for key, problem := range naming.LabelProblems(all) {
		p.add(path+key, "%s", problem)
	}
}
