// Package workers acts for processes that take tasks over HTTP. Such a worker has a session in the store, as a replica has; any
// replica serves any call of it, and none remembers it: what a call needs is in the rows. It can be read alone: of the replica it
// needs what is to be executed (plan), how pools are governed and whether work may begin (work, by an interface), and the clock.
//
//	ClaimFor            opens or beats the session, and claims by the path of all claims, waiting for work (claim.go, await.go, line.go)
//	HeartbeatFor        beats the session, and says until when the attempt may run and whether to stop it (attempt.go)
//	EndFor              beats the session, and records the end of an attempt under its token (attempt.go)
//	LeaveFor            ends the session, and what it runs as a drain does (attempt.go)
//	Run                 ends attempts that have timed out, whatever their worker does (timeouts.go)
//
// The sessions are expired and their tasks reaped by the loops that do so for replicas (membership, work).
package workers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// Options of Workers. All of them are set; package scheduler has the defaults.
type Options struct {
	SessionTTL  time.Duration // of the sessions that this replica opens
	OutputLimit int           // bytes kept of the output that comes with an end, half head, half tail
	Logger      *slog.Logger
	Observer    Observer
}

// Observer is told what workers do by this replica.
type Observer interface {
	Claimed(c jobs.ClaimTry)
	Recorded(t jobs.Task, end jobs.State, late bool)
	Fenced(t jobs.Task, end jobs.State)
}

// Hooks are called when something has changed.
type Hooks struct {
	Recorded func(job string, state jobs.State) // an attempt has ended; the state is that of its task then
	Pending  func()                             // a task waits for its next attempt
	Freed    func(pool string, limited bool)    // an attempt has ended in a pool; limited: it is known to have limits
	Outdated func()                             // another configuration governs a pool
	Governs  func() bool                        // asks: this replica's configuration is the newest, as far as is known
}

// Workers is what a replica does for workers.
type Workers struct {
	store  store
	opt    Options
	on     Hooks
	member member
	work   Work
	plan   *plan.Current
	log    *slog.Logger

	mu    sync.Mutex
	lines map[string]*line // of claims, by pool that had some
}

// store is what Workers need of it.
type store interface {
	ledger.Workers
	Join(ctx context.Context, m ledger.Member) (string, error)
	Leave(ctx context.Context, session string) error
	TaskRow(ctx context.Context, id string) (jobs.Task, error)
	Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error)
	Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error)
	WriteOutput(ctx context.Context, session string, chunks []ledger.Chunk) ([]bool, error)
}

// member is what Workers need of the replica's membership; *membership.Member is one.
type member interface {
	Clock() *membership.Clock
	Draining() bool
	Session() *membership.Session
	Workers() int
	StoreFailed(err error)
	WatchEvery() time.Duration
}

// Work is what Workers need of the replica's work.
type Work interface {
	// MayClaim reports whether new work may be taken: the session is trusted, and the lock service does not block.
	MayClaim() bool
	// Governed is the definition of a pool of p that holds, as far as the replica has learned; none if p is not its present plan.
	Governed(p *plan.Plan, pool string) plan.Governing
}

// New makes the part of a replica that acts for workers. It starts no loop.
func New(st store, m member, work Work, p *plan.Current, o Options, on Hooks) *Workers {
	return &Workers{store: st, opt: o, on: on, member: m, work: work, plan: p, log: o.Logger, lines: map[string]*line{}}
}

const (
	// callTime bounds one call of the store.
	callTime = 5 * time.Second
	// batch is how many tasks one call of the store is about, at most.
	batch = 500
)

// joined refuses calls before the replica has joined: it has no time to go by.
func (w *Workers) joined() error {
	if w.member.Session() == nil {
		return fmt.Errorf("this replica has just started, and has no session yet: %w", jobs.ErrUnavailable)
	}
	return nil
}

// beat renews a worker's session. The error is a *ledger.WorkerError if the session is not one of the caller, any more.
func (w *Workers) beat(ctx context.Context, c wire.WorkerCaller, session string) (ledger.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ses, _, err := w.store.BeatWorker(ctx, session, c.Owner)
	if err != nil {
		return ses, err
	}
	if c.Pools != nil && !slices.Contains(c.Pools, ses.Pool) {
		return ses, fmt.Errorf("worker's session %.64q: %w", session, jobs.ErrNotFound)
	}
	return ses, nil
}

// errExpired refuses what only a live session may do.
func errExpired(ses ledger.Peer) error {
	return &ledger.WorkerError{Code: ledger.SessionExpired, Text: fmt.Sprintf(
		"the session of worker %s has expired, and its tasks run elsewhere: stop what it runs, and claim without a session, which opens another one", ses.Replica)}
}
