package api

import (
	"context"
	"errors"
	"iter"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Backend is what the API serves. Reader and Writer are required.
//
// The methods return jobs.ErrNotFound, ErrConflict, ErrInvalid and ErrUnavailable, wrapped with
// what people should read, or with a method Explain() string that says it; any other error answers 500.
type Backend struct {
	Reader  Reader
	Writer  Writer
	Replica Replica // nil: this process has none, and answers 501 where one is needed
	Locks   Locks   // nil: /locks is not served
	Audit   Audit   // nil: writes are not audited, and /audit is not served
}

// incomplete says what is missing of what is required.
func (b Backend) incomplete() error {
	switch {
	case nilcheck.IsNil(b.Reader):
		return errors.New("api: New: Backend.Reader is nil")
	case nilcheck.IsNil(b.Writer):
		return errors.New("api: New: Backend.Writer is nil")
	}
	return nil
}

// Reader is the reading side of the store.
type Reader interface {
	// Jobs returns the rows of the named jobs, or of all, sorted by name. Names without a row are
	// left out.
	Jobs(ctx context.Context, names ...string) ([]ledger.JobStatus, error)
	// JobNames returns the names, sorted, of at most limit jobs that begin with prefix and come
	// after the name after; those that no live configuration has only with retired.
	JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error)
	// Overview returns at most so many rows of each kind.
	Overview(ctx context.Context, rows int) (ledger.Overview, error)
	Triggers(ctx context.Context, f wire.TriggerFilter) (rows []jobs.Trigger, next string, err error)
	Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error)
	Tasks(ctx context.Context, f wire.TaskFilter) (rows []jobs.Task, next string, err error)
	// Output returns what is kept of an attempt's output; attempt 0 is the latest one that has any.
	Output(ctx context.Context, id string, attempt int) ([]byte, error)
	PoolStatuses(ctx context.Context) ([]ledger.PoolStatus, error)
	Replicas(ctx context.Context) ([]ledger.Peer, error)
}

// Writer is what the store does without a replica. by names the caller, for people.
type Writer interface {
	// Enqueue adds all tasks or none.
	Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error)
	CancelTask(ctx context.Context, id, by string) (jobs.Task, error)
	// SuspendJob and PausePool set the override, or clear it with nil.
	SuspendJob(ctx context.Context, name string, override *bool, by string) error
	PausePool(ctx context.Context, name string, override *bool, by string) error
}

// Replica is the running replica.
type Replica interface {
	ID() string
	Set() jobs.Set
	// Runs reports whether the replica takes tasks of the kind in the pool by their pool's handler: not if a newer
	// configuration, which governs, has it otherwise, nor while it drains.
	Runs(pool, kind string) bool
	// Loaded reports whether the store knows the definitions of Set. Before that, what depends on
	// them answers 503 with Retry-After.
	Loaded() bool
	// RunJob opens a manual trigger; jobs.ErrConflict says why it was skipped. While a lost attempt may still run it
	// starts with the force of its *jobs.LostError only.
	RunJob(ctx context.Context, name, by, force string) (jobs.Trigger, jobs.Task, error)
	// RetryTask makes a new task of an ended one; that of a job with a lost attempt as RunJob, and one that no live
	// replica can run only if force says anything.
	RetryTask(ctx context.Context, id, by, force string) (jobs.Task, error)
	Wake(pools ...string) // there is new work
	Nudge()               // something was overridden or cancelled: read the store now
	Health() []wire.Condition
}

// Locks lists the held keys of the lock service with their holders, in the order of keys.
type Locks interface {
	Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error]
}

// Audit keeps writes with their callers.
type Audit interface {
	// AddAudit adds an entry; ID and At are given to it.
	AddAudit(ctx context.Context, e wire.AuditEntry) error
	// AuditEntries returns entries, the latest first.
	AuditEntries(ctx context.Context, p wire.Page) (rows []wire.AuditEntry, next string, err error)
}
