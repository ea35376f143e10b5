package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// world is one simulation: the shared state, and the history.
type world struct {
	plan      *plan
	db        *memstore.Database
	locks     *memlock.Service
	weather   *weather
	between   func(ledger.Store) ledger.Store // replicas and their edges; may be nil
	nodes     []*node
	app       *edge               // of clients
	admin     *memstore.Store     // without faults
	schedules map[string]job      // by job and hash of its schedule
	specs     map[string][]job    // by job: all versions
	defined   []map[string]string // hashes of definitions, by version
	pools     []map[string]string // hashes of pools, by version
	work      sync.WaitGroup      // every goroutine
	steps     sync.WaitGroup      // those that steps started

	*seen
}

func newWorld(p *plan) *world {
	w := &world{
		plan: p, locks: memlock.New(), schedules: map[string]job{}, specs: map[string][]job{}, seen: newSeen(),
		weather: &weather{d: newDraw(p.Seed, "weather"), applied: map[string]int{}},
	}
	w.db = memstore.New()
	w.db.Mistake = p.mistake
	w.db.Clock, w.db.Watch = w.clock, w.watch
	w.admin = &memstore.Store{Database: w.db, Name: "admin"}
	w.app = &edge{index: -1, w: w, process: newProcess()}
	w.app.st = &memstore.Store{Database: w.db, Name: "app", NewID: w.app.newID}
	for version, set := range p.versions() {
		w.defined = append(w.defined, p.hashes(version))
		hashes := map[string]string{}
		for name, pool := range loaded(p.configuration(version, &handler{})) {
			hashes[name] = pool.Hash()
		}
		w.pools = append(w.pools, hashes)
		compiled := p.configuration(version, nil)
		compiler := compiled.Compiler()
		for name, j := range set {
			w.schedules[name+compiler.ScheduleHash(compiled.Jobs[name])] = j
			w.specs[name] = append(w.specs[name], j)
		}
	}
	w.failing = newFailing(p)
	for i := range p.Replicas {
		w.nodes = append(w.nodes, &node{w: w, index: i})
	}
	return w
}

// clock is the database's.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shows()
}

// shows is what the database's clock shows. With w.mu held.
func (w *world) shows() time.Time { return time.Now().Add(w.offset) }

// latest is the highest time that the database's clock has shown. With w.mu held.
func (w *world) latest() time.Time {
	if now := w.shows(); now.After(w.high) {
		return now
	}
	return w.high
}

// stepClock steps the database's clock between two transactions, so that the time of one is also what the clock shows when it is judged.
func (w *world) stepClock(by time.Duration) {
	w.db.Look(func(memstore.Rows) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.high = w.latest()
		w.offset += by
	})
}

// wall is how far the wall clock of a replica's machine is off.
func (w *world) wall(index int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.walls[index]
}

// setWall sets how far it is off.
func (w *world) setWall(index int, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.walls[index] = by
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

func (w *world) ends(r *replica, err error) {
	w.note(r.id, endedWith, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = time.Now()
}

func (w *world) drains(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.drained.IsZero() { // it may be told again while it drains
		r.drained = time.Now()
	}
}

// onlyInZone reports whether a job runs in one zone alone, by all versions. With w.mu held.
func (w *world) onlyInZone(name string) bool {
	return !slices.ContainsFunc(w.specs[name], func(j job) bool { return j.RunsOn == nil })
}

// run executes the plan, from the first start to the last end.
func (w *world) run() {
	time.Sleep(w.plan.Start)
	w.weather.stir(0) // replicas join
	for _, n := range w.nodes {
		n.start(context.Background())
	}
	began := time.Now()
	for _, s := range w.plan.Steps {
		time.Sleep(time.Until(began.Add(s.At)))
		w.note("PLAN", "%s replica %d for %v by %v %s %d", s.Kind, s.Replica, s.For, s.By, s.Name, s.N)
		if s.Kind == outages { // later steps are postponed
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
	w.judgeLocks()
	w.db.Look(w.noteRetired)
	w.finish()
	w.judge(end)
}

// outage stops all replicas for a while, which costs no time.
func (w *world) outage(d time.Duration) {
	w.weather.note(outages)
	w.weather.stir(d)
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

// heal ends all faults and overrides, and starts every replica.
func (w *world) heal() {
	w.note("PLAN", "heal")
	w.weather.heal()
	w.locks.Start()
	w.steps.Wait()
	ctx := context.Background()
	for name := range w.specs {
		_ = w.admin.SuspendJob(ctx, name, "", nil) // overrides of a removed job do not matter
		_ = w.admin.SkipNext(ctx, name, "", 0)
	}
	_, _ = w.admin.ResumeAll(ctx)
	for name := range w.plan.Pools {
		_ = w.admin.PausePool(ctx, name, "", nil)
		_ = w.admin.LimitPool(ctx, name, "", nil)
	}
	for _, n := range w.nodes {
		n.start(ctx)
	}
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
