package sim

import (
	"context"
	"sync"
	"time"
)

// node is a machine on which replicas run one after the other.
type node struct {
	w     *world
	index int

	mu      sync.Mutex
	version int
	n       int // replicas so far
	now     *replica
	down    int // how many steps want it down
}

// start starts a replica that runs until it is stopped or ctx ends, unless one runs or a step wants the node to
// be down.
func (n *node) start(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil || n.down > 0 || n.w.isOver() {
		return
	}
	n.n++
	r := newReplica(n)
	ctx, stop := context.WithCancel(ctx)
	r.stop = stop
	n.now = r
	n.w.register(r)
	n.w.note(r.id, startedWith, n.version)
	n.w.work.Go(func() { n.run(ctx, r) })
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
		_ = r.locks.Close(cctx) // what was not released expires
		cancel()
	}
	n.w.ends(r, err)
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

// kill ends the process at once; it is started again after a while.
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

// drain stops the process as a supervisor does; it is started again after a while.
func (n *node) drain(d time.Duration) {
	n.away(d, func(r *replica) {
		n.w.drains(r)
		r.stop()
		<-r.done
	})
}

// away stops the replica and starts another after a while. Each is a fault of its own: a trap strikes, and a
// drain ends, long after the step has begun. A restart after an error is none.
func (n *node) away(d time.Duration, stop func(*replica)) {
	n.mu.Lock()
	n.down++
	r := n.now
	n.mu.Unlock()
	n.w.weather.stir(0)
	if r != nil && stop != nil {
		stop(r)
	}
	n.w.weather.stir(d)
	time.Sleep(d)
	n.mu.Lock()
	n.down--
	n.mu.Unlock()
	n.start(context.Background())
}
