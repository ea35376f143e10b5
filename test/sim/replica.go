package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// replica is one process.
type replica struct {
	*process
	node  *node
	id    string
	s     *scheduler.Scheduler
	locks *locks.Locker
	lock  *lockEdge
	stop  context.CancelFunc
	done  chan struct{}

	// Guarded by the world's mu.
	joined   time.Time
	config   int64     // number of its configuration, once it has one
	drained  time.Time // when it was told to; zero: it was not
	killed   bool
	replaced bool           // it was told to load another configuration
	running  map[string]int // attempts that execute, by pool
}

// newReplica is the node's next process, not started yet. With the node's mu held.
func newReplica(n *node) *replica {
	w, p := n.w, n.w.plan
	r := &replica{process: newProcess(), node: n, id: fmt.Sprintf("r%d", n.index), done: make(chan struct{}), running: map[string]int{}}
	if !p.SameIDs {
		r.id = fmt.Sprintf("r%d-%d", n.index, n.n)
	}
	e := &edge{index: n.index, w: w, process: r.process}
	e.st = &memstore.Store{Database: w.db, Name: r.id, NewID: e.newID, Stall: e.stall, Repeat: e.repeat}
	var lk scheduler.Locks
	var keys scheduler.Locks // of jobs, where the guards are rows
	service := scheduler.StoreLocks
	if !p.NoLocks || p.hasKeys() {
		r.lock = &lockEdge{Service: w.locks, w: w, index: n.index, process: r.process}
		locker, err := locks.New(r.lock, locks.Options{TTL: p.TTL, Owner: r.id})
		if err != nil {
			panic(err)
		}
		if r.locks = locker; p.NoLocks {
			keys = locker
		} else {
			lk, service = locker, "simulated"
		}
	}
	var st ledger.Store = e
	if w.between != nil {
		st = w.between(e)
	}
	s, err := scheduler.New(ledger.Sides{Replica: st}, lk, p.read(n.version, &handler{w, r, n.version}), scheduler.Options{
		ID: r.id, SessionTTL: p.TTL, DrainTimeout: p.Drain, StopGrace: 2 * time.Second, WhenDown: p.WhenDown, LockService: service, JobLocks: keys,
		Workers: 16, Labels: zone(n.index), Logger: w.logger(r.id),
	})
	if err != nil {
		panic(err)
	}
	r.s = s
	return r
}
