package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// node is a machine on which one replica after the other runs.
type node struct {
	w     *world
	index int

	mu      sync.Mutex
	version int
	n       int // replicas so far
	now     *replica
	down    int // how many steps want it down
}

// replica is one process.
type replica struct {
	*life
	node  *node
	id    string
	s     *scheduler.Scheduler
	locks *locks.Locker
	lock  *lockEdge
	stop  context.CancelFunc
	done  chan struct{}
	edge  *edge

	// Guarded by the world's mu.
	joined  time.Time
	config  int64     // number of its configuration, once it has one
	drained time.Time // when it was told to; zero: it was not
	killed  bool
	running map[string]int // attempts that execute, by pool
}

// start starts a replica that runs until it is stopped or ctx ends, unless one runs or somebody wants
// the node to be down.
func (n *node) start(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil || n.down > 0 || n.w.isOver() {
		return
	}
	n.n++
	w, p := n.w, n.w.plan
	r := &replica{life: newLife(), node: n, id: fmt.Sprintf("r%d", n.index), done: make(chan struct{}), running: map[string]int{}}
	if !p.SameIDs {
		r.id = fmt.Sprintf("r%d-%d", n.index, n.n)
	}
	e := &edge{index: n.index, w: w, life: r.life}
	e.st = &memstore.Store{Database: w.db, Name: r.id, NewID: e.newID, Stall: e.stall, Repeat: e.repeat}
	r.edge = e
	var lk scheduler.Locks
	if !p.NoLocks {
		r.lock = &lockEdge{Service: w.locks, w: w, index: n.index, life: r.life}
		locker, err := locks.New(r.lock, locks.Options{TTL: p.TTL, Owner: r.id})
		if err != nil {
			panic(err)
		}
		r.locks, lk = locker, locker
	}
	var st scheduler.Store = e
	if w.between != nil {
		st = w.between(e)
	}
	s, err := scheduler.New(st, lk, p.configuration(n.version, &handler{w, r}), scheduler.Options{
		ID: r.id, SessionTTL: p.TTL, DrainTimeout: p.Drain, StopGrace: 2 * time.Second, WhenDown: p.WhenDown, LockService: "simulated",
		Workers: 16, Labels: zone(n.index), Logger: w.logger(r.id),
	})
	if err != nil {
		panic(err)
	}
	r.s = s
	ctx, stop := context.WithCancel(ctx)
	r.stop = stop
	n.now = r
	w.register(r)
	w.note(r.id, startedWith, n.version)
	w.work.Go(func() { n.run(ctx, r) })
}

// zone is the labels of every second machine, the first of them included.
func zone(index int) map[string]string {
	if index%2 == 0 {
		return zoneA
	}
	return nil
}

var zoneA = map[string]string{"zone": "a"}

// run is the process from its start to its end, and its supervisor: one that cannot start is started
// again.
func (n *node) run(ctx context.Context, r *replica) {
	err := r.s.Run(ctx)
	if r.locks != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		_ = r.locks.Close(cctx) // what the service was not told expires
		cancel()
	}
	n.w.note(r.id, endedWith, err)
	r.die()
	close(r.done)
	n.mu.Lock()
	if n.now == r {
		n.now = nil
	}
	n.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		time.Sleep(time.Second)
		n.start(context.WithoutCancel(ctx)) // that one is stopped by itself
	}
}

// current is the replica that runs, or nil.
func (n *node) current() *replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// kill ends the process at once, and nobody starts it for a while.
func (n *node) kill(d time.Duration) {
	n.away(d, func(r *replica) {
		r.die()
		n.w.cut(r)
		r.stop()
		r.s.Halt()
		n.mu.Lock()
		n.now = nil // what it leaves behind ends by itself
		n.mu.Unlock()
	})
}

// drain stops the process as a supervisor does, and nobody starts it for a while.
func (n *node) drain(d time.Duration) {
	n.away(d, func(r *replica) {
		n.w.drains(r)
		r.stop()
		<-r.done
	})
}

func (n *node) away(d time.Duration, stop func(*replica)) {
	n.mu.Lock()
	n.down++
	r := n.now
	n.mu.Unlock()
	if r != nil && stop != nil {
		stop(r)
	}
	time.Sleep(d)
	n.mu.Lock()
	n.down--
	n.mu.Unlock()
	n.start(context.Background())
}
