package ledger

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Sides are what a store offers to the packages of this module beside what its users see: an interface for each of
// those that ask. A store may lack sides, but not those that it is asked for.
type Sides struct {
	Replica Store // package scheduler
	API     API   // packages api and metrics
	Audit   Audit // package api
	Admin   Admin // commands
}

// Sides makes a store of its sides, to be given where a store is taken.
func (s Sides) Sides() Sides { return s }

// API is what people see and change. Its reads hold up no replica, however many look. by names the caller, for people.
//
// Its methods return jobs.ErrNotFound, ErrConflict, ErrInvalid and ErrUnavailable, wrapped with what people should read.
type API interface {
	// Jobs returns the rows of the named jobs, or of all that were ever configured, sorted by name. Names without a row are
	// left out.
	Jobs(ctx context.Context, names ...string) ([]JobStatus, error)
	// JobNames returns the names, sorted, of at most limit jobs that begin with prefix and come
	// after the name after; those that no live configuration has only with retired.
	JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error)
	// History returns the definitions that a job has had, the one first that began to govern last.
	History(ctx context.Context, job string, p wire.Page) (rows []wire.Definition, next string, err error)
	// DefinitionID is what the history names a definition by whose hash this is, whether or not it has governed.
	DefinitionID(ctx context.Context, hash string) (string, error)
	// JobStandings returns how the live jobs stand, sorted by name.
	JobStandings(ctx context.Context) ([]JobStanding, error)
	// NextDue returns the next due times, one of each job, the first n of them in the order of time. What is past is overdue.
	NextDue(ctx context.Context, n int) ([]NextDue, error)
	// Overview returns at most so many rows of each kind.
	Overview(ctx context.Context, rows int) (Overview, error)
	Triggers(ctx context.Context, f wire.TriggerFilter) (rows []jobs.Trigger, next string, err error)
	Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error)
	Tasks(ctx context.Context, f wire.TaskFilter) (rows []jobs.Task, next string, err error)
	// DeadLetters lists what failed, or was lost, for good and was not retried since, in groups of what ended in the same way.
	DeadLetters(ctx context.Context, f wire.DeadLetterFilter) (rows []wire.DeadLetters, next string, err error)
	// Why returns what the store knows of why a task is in its state.
	Why(ctx context.Context, id string) (Facts, error)
	// WhyJob returns what the store knows of why a due time of a job ran or did not run, or of what may stop it.
	WhyJob(ctx context.Context, q JobQuestion) (JobFacts, error)
	// Output returns what is kept of an attempt's output, and of a running one what has arrived; attempt 0 is the latest one that has any.
	Output(ctx context.Context, id string, attempt int) ([]byte, error)
	// FollowOutput returns what has come of the outputs of a task's attempts since a place in them, about 1 MiB of it at most. jobs.ErrNotFound.
	FollowOutput(ctx context.Context, id string, from OutputAt) (OutputNews, error)
	// Result returns the result of an ended task as JSON; nil if it has none.
	Result(ctx context.Context, id string) ([]byte, error)
	// Pools counts the tasks of each pool and state up to PoolMost. CountPools counts all, however long that takes.
	Pools(ctx context.Context) ([]PoolStatus, error)
	CountPools(ctx context.Context) ([]PoolStatus, error)
	Replicas(ctx context.Context) ([]Peer, error)
	Workers(ctx context.Context) ([]WorkerStatus, error)

	// Enqueue adds all tasks or none.
	Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error)
	// Cancel ends a pending task, and asks the owner of a running one.
	Cancel(ctx context.Context, id, by string) (jobs.Task, error)
	// ChangeTasks does an action with one batch of the tasks that match.
	ChangeTasks(ctx context.Context, action wire.BulkAction, b wire.Bulk) (wire.BulkResult, error)
	// UpdateTask changes a pending task of a pool.
	UpdateTask(ctx context.Context, id string, change wire.TaskChange) (jobs.Task, error)
	// SuspendJob and PausePool set the override, or clear it with nil.
	SuspendJob(ctx context.Context, name string, by string, override *bool) error
	// SuspendJobs sets the override of these jobs, 1 to 500, in one transaction, and returns the names of those that a configuration has. An
	// Until that has passed is a *jobs.FieldError. Where s.Resumes a job whose definition, as the history has it, does not suspend it, its override is cleared; both
	// do that, so that nobody's resume holds over a definition that suspends the job later.
	SuspendJobs(ctx context.Context, names []string, by string, s Suspension) (set []string, err error)
	// SkipNext has the next n due times of a job skipped, 0 … MostSkipped, in place of those that were to be before.
	SkipNext(ctx context.Context, name string, by string, n int) error
	PausePool(ctx context.Context, name string, by string, override *bool) error
	// PauseAll pauses everything until ResumeAll, or until p.Until, and returns what is set. It takes the place of another pause. An Until that
	// has passed is a *jobs.FieldError.
	PauseAll(ctx context.Context, p Pause) (Pause, error)
	// ResumeAll ends the pause of everything, and says whether there was one.
	ResumeAll(ctx context.Context) (was bool, err error)
	// Paused is the pause of everything; the zero Pause: there is none.
	Paused(ctx context.Context) (Pause, error)
	// Orders lists orders, the latest first.
	Orders(ctx context.Context, f wire.OrderFilter) (rows []wire.Order, next string, err error)
	// Order returns one order; jobs.ErrNotFound.
	Order(ctx context.Context, id string) (wire.Order, error)
	// CancelOrder ends an open order: it makes nothing more, and what it has made goes on. jobs.ErrNotFound; jobs.ErrConflict if it has ended.
	CancelOrder(ctx context.Context, id, by string) (wire.Order, error)
	// LimitPool sets the limits that o has, in place of those of the pool's definition, until it is called with nil: that clears all.
	LimitPool(ctx context.Context, name string, by string, o *wire.PoolLimits) error
}

// Audit keeps writes with their callers.
type Audit interface {
	// AddAudit adds an entry; ID and At are given to it.
	AddAudit(ctx context.Context, e wire.AuditEntry) error
	// AuditEntries returns entries, the latest first.
	AuditEntries(ctx context.Context, p wire.Page) (rows []wire.AuditEntry, next string, err error)
}

// Admin is what commands ask of a database.
type Admin interface {
	// Now is the database's time.
	Now(ctx context.Context) (time.Time, error)
	// MigrationStatus lists the steps of the schema that this program knows, and those that a newer one applied.
	MigrationStatus(ctx context.Context) ([]Migration, error)
	// CheckRights fails when the account may not do what a replica does, and with migrate what Migrate does.
	CheckRights(ctx context.Context, migrate bool) error
}

// Migration is one step of the schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: pending
	Unknown   bool      // applied by a newer program
}
