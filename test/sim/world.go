package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// world is one simulation: what all replicas share, what happened, and what is wrong with it.
type world struct {
	plan      *Plan
	db        *memstore.Database
	locks     *memlock.Service
	weather   *weather
	nodes     []*node
	app       *edge                    // who enqueues
	admin     *memstore.Store          // without faults
	schedules map[string]times         // by job and hash of its schedule
	specs     map[string][]Job         // by job: all versions
	work      sync.WaitGroup           // every goroutine
	steps     sync.WaitGroup           // those that steps started
	walls     map[int]*time.Duration   // how far wall clocks are off; guarded by mu
	starts    map[string]int           // by task
	keys      map[string]string        // ids by idempotency key, as they were acknowledged
	acked     map[string]bool          // tasks
	replicas  map[string]*replica      // by id, the latest
	sessions  map[string]*replica      // by session
	latestOn  map[int]string           // ids of replicas, by node
	active    map[string][]*run        // that execute, by job
	fence     map[string]int64         // the highest token that the fenced lane has seen, by job
	runs      map[claimKey]*run        // all
	claims    map[claimKey]claim       // all
	token     map[string]int64         // the last one, by job
	open      map[string][]string      // tasks, by job
	inPool    map[string]int           // running rows
	owned     map[string]int64         // tokens of running rows, by task
	suspended map[string]bool          // jobs, by override
	busy      map[string]int64         // until when jobs are
	leaving   map[string]memstore.Task // rows between tasks and done
	done      map[string]string        // states
	epochs    map[string][]epoch       // by job
	counted   map[string]int           // what was seen

	mu         sync.Mutex
	offset     time.Duration   // of the database's clock
	high       time.Time       // the highest time that it showed before its last step
	healed     time.Time       // the highest time that it showed before all was healed
	retired    map[string]bool // jobs, when all had come to rest
	over       bool
	history    []entry
	violations []violation
}

type claimKey struct {
	task  string
	token int64
}

type claim struct {
	by, session string
	mayRun      int64
}

// epoch is a stretch of time in which a job had one schedule.
type epoch struct {
	times       times
	from, until int64 // cursors; until 0: it lasts
}

func newWorld(p *Plan) *world {
	w := &world{
		plan: p, locks: memlock.New(), schedules: map[string]times{}, specs: map[string][]Job{}, walls: map[int]*time.Duration{},
		weather: &weather{d: newDraw(p.Seed, "weather"), applied: map[string]int{}},
		starts:  map[string]int{}, keys: map[string]string{}, acked: map[string]bool{}, replicas: map[string]*replica{}, sessions: map[string]*replica{}, latestOn: map[int]string{},
		active: map[string][]*run{}, fence: map[string]int64{}, runs: map[claimKey]*run{}, claims: map[claimKey]claim{},
		token: map[string]int64{}, open: map[string][]string{}, inPool: map[string]int{}, leaving: map[string]memstore.Task{}, owned: map[string]int64{}, suspended: map[string]bool{}, busy: map[string]int64{},
		done: map[string]string{}, epochs: map[string][]epoch{}, counted: map[string]int{},
	}
	w.db = memstore.New()
	w.db.Clock, w.db.Watch = w.clock, w.watch
	w.admin = &memstore.Store{Database: w.db, Name: "admin"}
	w.app = &edge{index: -1, w: w, life: newLife()}
	w.app.st = &memstore.Store{Database: w.db, Name: "app", NewID: w.app.newID}
	for _, set := range p.versions() {
		for name, j := range set {
			w.schedules[name+j.ScheduleHash()] = j.Times
			w.specs[name] = append(w.specs[name], j)
		}
	}
	for i := range p.Replicas {
		w.nodes = append(w.nodes, &node{w: w, index: i})
	}
	return w
}

// clock is the database's.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// latest is the highest time that the database's clock has shown. With w.mu held.
func (w *world) latest() time.Time {
	now := time.Now().Add(w.offset)
	if now.Before(w.high) {
		return w.high
	}
	return now
}

func (w *world) stepClock(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.high = w.latest()
	w.offset += by
}

// wall is how far the wall clock of a replica's machine is off.
func (w *world) wall(index int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off := w.walls[index]; off != nil {
		return *off
	}
	return 0
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted[what]++
}

func (w *world) register(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas[r.id] = r
	w.latestOn[r.node.index] = r.id
}

func (w *world) drains(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.drained = time.Now()
}

// forbids reports whether a job never had another policy. With w.mu held.
func (w *world) forbids(job string) bool {
	return !slices.ContainsFunc(w.specs[job], func(j Job) bool { return j.Concurrency == jobs.Allow })
}

// run lives through the plan, from the first start to the last end.
func (w *world) run() {
	time.Sleep(w.plan.Start)
	for _, n := range w.nodes {
		n.start()
	}
	began := time.Now()
	for _, s := range w.plan.Steps {
		time.Sleep(time.Until(began.Add(s.At)))
		w.note("PLAN", "%s replica %d for %v by %v %s %d", s.Kind, s.Replica, s.For, s.By, s.Name, s.N)
		if s.Kind == outages { // what comes after it is put off
			w.outage(s.For)
			began = began.Add(s.For)
			continue
		}
		w.do(s)
	}
	time.Sleep(time.Until(began.Add(w.plan.Length)))
	w.heal()
	end := w.clock()
	w.mu.Lock()
	w.healed = w.latest()
	w.mu.Unlock()
	w.quiesce(end)
	w.db.Look(w.noteRetired)
	w.finish()
	w.judge(end)
}

// outage stops everything for a while, which costs no time.
func (w *world) outage(d time.Duration) {
	w.weather.note(outages)
	var gone sync.WaitGroup
	for i, n := range w.nodes {
		gone.Go(func() {
			if i%2 == 0 {
				n.kill(d)
			} else {
				n.drain(d)
			}
		})
	}
	gone.Wait()
}

// heal ends all faults and overrides, and has every replica running.
func (w *world) heal() {
	w.note("PLAN", "heal")
	w.weather.heal()
	w.locks.Start()
	w.steps.Wait()
	ctx := context.Background()
	for name := range w.specs {
		_ = w.admin.SuspendJob(ctx, name, nil, "") // one that is retired has none that matters
	}
	for name := range w.plan.Pools {
		_ = w.admin.PausePool(ctx, name, nil, "")
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// patience is how long the replicas may take to come to rest, before time is made to pass without them.
const patience = 40 * time.Second

// quiesce waits until all that was due before end has ended.
func (w *world) quiesce(end time.Time) {
	for range 4 {
		for began := time.Now(); time.Since(began) < patience; time.Sleep(500 * time.Millisecond) {
			if w.unfinished(end) == "" {
				return
			}
		}
		until := w.waitsFor()
		if d := until.Sub(w.clock()); d > 0 { // nobody need run until then
			w.note("PLAN", "nothing for %v", d)
			w.outageByDrain(d)
		}
	}
	what := w.unfinished(end)
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != "" {
		w.violate(what, "not at rest: %s", what)
	}
}

func (w *world) outageByDrain(d time.Duration) {
	var gone sync.WaitGroup
	for _, n := range w.nodes {
		gone.Go(func() { n.drain(d) })
	}
	gone.Wait()
}

// unfinished names something that was due before end and has not ended; "" if there is nothing.
func (w *world) unfinished(end time.Time) (what string) {
	w.db.Look(func(rows memstore.Rows) {
		w.mu.Lock()
		defer w.mu.Unlock()
		healed := w.healed
		for id, r := range rows.Tasks {
			if r.CreatedAt <= healed.UnixMicro() && !retired(rows, r.Job) {
				what = id
			}
		}
		for _, n := range w.nodes {
			if id := w.latestOn[n.index]; !alive(rows, id) {
				what = id
			}
		}
		for name, list := range w.epochs {
			last := list[len(list)-1]
			if next := last.times.next(time.UnixMicro(rows.Jobs[name].Cursor)); last.until == 0 && !next.After(end) {
				what = name
			}
		}
	})
	return what
}

// alive reports whether a replica has a session that lives.
func alive(rows memstore.Rows, id string) bool {
	for _, r := range rows.Sessions {
		if r.Replica == id && !r.Dead {
			return true
		}
	}
	return false
}

// retired reports whether no configuration has the job any more. Its pending tasks wait for its return.
func retired(rows memstore.Rows, job string) bool { return job != "" && rows.Jobs[job].Hash == "" }

func (w *world) noteRetired(rows memstore.Rows) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = map[string]bool{}
	for name := range rows.Jobs {
		w.retired[name] = retired(rows, name)
	}
}

// waitsFor is when the last job is no longer busy, and the last task is due.
func (w *world) waitsFor() (until time.Time) {
	w.db.Look(func(rows memstore.Rows) {
		last := int64(0)
		for _, j := range rows.Jobs {
			last = max(last, j.BusyUntil)
		}
		for _, r := range rows.Tasks {
			last = max(last, r.RunAt)
		}
		until = time.UnixMicro(last)
	})
	return until
}

// finish drains every replica.
func (w *world) finish() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for _, n := range w.nodes {
		w.work.Go(func() { n.drain(0) })
	}
	w.work.Wait()
}

// do starts one step.
func (w *world) do(s Step) {
	go1 := func(f func()) { w.steps.Go(f) }
	var n *node
	var r *replica
	if s.Replica >= 0 {
		n = w.nodes[s.Replica]
		r = n.current()
	}
	spell := func(index int, until time.Duration) {
		w.weather.add(window{kind: s.Kind, replica: index, from: time.Now(), until: time.Now().Add(until), p: s.P, by: s.By})
	}
	switch s.Kind {
	case refuses, storeDown, loses, hangs, slows, stalls, repeats, lockBusy, lockLoses, lockRefuse, lockSlow:
		spell(s.Replica, s.For)
	case pauses:
		if r == nil {
			return
		}
		freeze := func() {
			w.weather.note(s.Kind)
			spell(s.Replica, s.For)
			r.freeze()
			w.work.Go(func() {
				time.Sleep(s.For)
				r.melt()
			})
		}
		if s.N == 0 {
			freeze()
			return
		}
		r.arm(freeze)
		go1(func() { // else it is put off for ever
			time.Sleep(s.For)
			r.arm(nil)
			for r.isFrozen() {
				time.Sleep(100 * time.Millisecond)
			}
		})
	case kills:
		if r != nil {
			w.weather.note(s.Kind)
		}
		go1(func() { n.kill(s.For) })
	case drains:
		if r != nil {
			w.weather.note(s.Kind)
		}
		go1(func() { n.drain(s.For) })
	case reloads:
		w.weather.note(s.Kind)
		n.mu.Lock()
		n.version = 1
		n.mu.Unlock()
		go1(func() { n.drain(s.For) })
	case lockStop:
		w.weather.note(s.Kind)
		spell(-1, s.For)
		w.locks.Stop()
		go1(func() {
			time.Sleep(s.For)
			w.locks.Start()
		})
	case lockForget:
		w.weather.note(s.Kind)
		spell(-1, 2*w.plan.TTL)
		w.locks.Restart()
	case lockExpire:
		if r != nil && r.lock != nil {
			w.weather.note(s.Kind)
			w.locks.Expire(r.lock.lastSession())
		}
	case wallSteps:
		w.weather.note(s.Kind)
		w.mu.Lock()
		off := s.By
		w.walls[s.Replica] = &off
		w.mu.Unlock()
	case dbSteps:
		w.weather.note(s.Kind)
		spell(-1, 3*w.plan.TTL)
		w.stepClock(s.By)
	default:
		go1(func() { w.ask(s, r) })
	}
}

// ask is what users do.
func (w *world) ask(s Step, r *replica) {
	ctx := context.Background()
	switch s.Kind {
	case enqueues:
		w.enqueue(s)
	case runs:
		if r == nil || !slices.Contains(slices.Collect(maps.Keys(r.s.Set().Jobs)), s.Name) {
			return
		}
		_, task, err := r.s.RunJob(ctx, s.Name, "somebody")
		if err == nil {
			w.ack(task.ID)
			w.count("manual runs")
		}
	case retries:
		if id := w.some(true); r != nil && id != "" {
			if task, err := r.s.RetryTask(ctx, id, "somebody"); err == nil {
				w.ack(task.ID)
				w.count("manual retries")
			}
		}
	case cancels:
		if id := w.some(false); id != "" {
			if _, err := w.admin.CancelTask(ctx, id, "somebody"); err == nil {
				w.count("cancels")
			}
		}
	case suspends:
		yes := true
		if w.admin.SuspendJob(ctx, s.Name, &yes, "somebody") == nil {
			time.Sleep(s.For)
			_ = w.admin.SuspendJob(ctx, s.Name, nil, "")
		}
	case pausesPool:
		yes := true
		if w.admin.PausePool(ctx, s.Name, &yes, "somebody") == nil {
			time.Sleep(s.For)
			_ = w.admin.PausePool(ctx, s.Name, nil, "")
		}
	}
}

func (w *world) ack(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[id] = true
}

// some is the id of a task that has ended, or has not.
func (w *world) some(ended bool) (id string) {
	w.db.Look(func(rows memstore.Rows) {
		ids := slices.Sorted(maps.Keys(rows.Tasks))
		if ended {
			ids = slices.Sorted(maps.Keys(rows.Done))
		}
		if len(ids) > 0 {
			id = ids[len(ids)/2]
		}
	})
	return id
}

// enqueue adds tasks, and asks again for those with a key until it knows that they are there.
func (w *world) enqueue(s Step) {
	for i := range s.N {
		d := keyed(w.plan.Seed, fmt.Sprint(s.At), i)
		task := jobs.NewTask{Pool: s.Name, Payload: i, Priority: d.IntN(3)}
		if d.chance(0.2) {
			task.RunAt = w.clock().Add(d.between(0, 5*time.Second))
		}
		if d.chance(s.P) {
			task.IdempotencyKey = fmt.Sprintf("%v/%d", s.At, i)
		}
		for try := 0; ; try++ {
			got, err := w.app.Enqueue(context.Background(), task)
			if err == nil {
				w.ack(got[0].Task.ID)
				w.known(task.IdempotencyKey, got[0].Task.ID)
				w.count("tasks")
				break
			}
			if task.IdempotencyKey == "" || try > 30 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func (w *world) known(key, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, known := w.keys[key]; key != "" && known && was != id {
		w.violate(id, "idempotency key %s made the tasks %s and %s", key, was, id)
	}
	w.keys[key] = id
}
