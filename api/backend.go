package api

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Backend is what the API serves. Store is required.
//
// The methods of a Replica return jobs.ErrNotFound, ErrConflict, ErrInvalid and ErrUnavailable, wrapped with
// a message for the user, or are [Explained]; any other error answers 500.
type Backend struct {
	Store   Store
	Replica Replica // nil: this process has none, and answers 501 where one is needed
	Locks   Locks   // nil: /locks is not served
	Audit   bool    // writes are audited, and /audit is served

	// Reload loads the configuration of the replica again, and returns what has changed; with activate it becomes the newest, also if it
	// was loaded before. An error changes nothing: one that wraps jobs.ErrInvalid is about the configuration, and names files and lines. nil: this
	// process has none that could be loaded again.
	Reload func(ctx context.Context, activate bool) (wire.Reloaded, error)
}

// Store is where the API reads and writes: a *store.Store.
type Store interface {
	Sides() ledger.Sides // of which it uses API and Audit
}

// Replica is the running replica. One that has the methods of [Workers] serves workers.
type Replica interface {
	ID() string
	Set() jobs.Set
	// Runs reports whether the replica claims tasks of the kind in the pool with the pool's handler: not if a newer
	// configuration, which governs, differs, nor while it drains.
	Runs(pool, kind string) bool
	// Loaded reports whether the store has the definitions of Set. Until then, routes that depend on them answer 503
	// with Retry-After.
	Loaded() bool
	// RunJobWith opens a manual trigger; jobs.ErrConflict has the reason why it was skipped. While a lost attempt may
	// still run, it needs the force of its *jobs.LostError. What is wrong with its payload is *jobs.FieldErrors.
	RunJobWith(ctx context.Context, name string, run jobs.NewRun) (jobs.Trigger, jobs.Task, error)
	// Retry enqueues an ended task again: that of a job with a lost attempt as RunJobWith, and one that no live
	// replica can run only with force.
	Retry(ctx context.Context, id, by, force string) (jobs.Task, error)
	// Wake says that there is new work in the pools; without any, that something was overridden or cancelled.
	Wake(pools ...string)
	Health() []wire.Condition
}

// Namespaced is a Replica that says in which namespace the jitter of jobs is drawn, see jobs.Starts; false while it does not know. Without it due times
// come without their starts.
type Namespaced interface {
	Namespace() (namespace string, known bool)
}

// Defined is a Replica that has the definitions of its Set ready: without it the schedules and calendars of jobs are read anew for each request.
type Defined interface {
	Definitions() *foresight.Definitions
}

// Locks is the lock service: a *locks.Locker.
type Locks interface {
	// Inspect lists who holds the keys that start with prefix, and who waits for them, in the order of keys.
	Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error]
	// InspectAfter is Inspect of the keys behind one.
	InspectAfter(ctx context.Context, prefix, after string) iter.Seq2[driver.Info, error]
	// ForceRelease takes the key from the holder with that token; false if there is none.
	ForceRelease(ctx context.Context, key string, token driver.Token) (bool, error)
}

// noReplica replaces the replica in a process without one: reads work, and what a replica must do is refused.
type noReplica struct{}

var _ Replica = noReplica{}

// needsReplica is the error of what needs a replica.
func needsReplica(what string) error {
	return newProblem(http.StatusNotImplemented, "no_replica", what+": this server runs no replica; use the address of a replica")
}

func (noReplica) ID() string               { return "" }
func (noReplica) Set() jobs.Set            { return jobs.Set{} }
func (noReplica) Runs(string, string) bool { return false }
func (noReplica) Loaded() bool             { return true } // there is nothing to wait for
func (noReplica) Wake(...string)           {}              // replicas notice one poll later

func (noReplica) RunJobWith(context.Context, string, jobs.NewRun) (jobs.Trigger, jobs.Task, error) {
	return jobs.Trigger{}, jobs.Task{}, needsReplica("a run of a job needs its definition")
}

func (noReplica) Retry(context.Context, string, string, string) (jobs.Task, error) {
	return jobs.Task{}, needsReplica("a retry needs the definition of its job")
}

func (noReplica) Health() []wire.Condition {
	return []wire.Condition{{Name: "replica", Ready: true, Detail: "none in this process: it shows what the store knows"}}
}
