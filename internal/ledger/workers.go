package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Workers are processes that take tasks over HTTP, by any replica. Each has a session, which Join adds, Expire and Leave end, and that of
// a replica otherwise: its tasks are claimed by Claim, ended by Finish under their tokens, and reaped by Reap. A worker does not run on
// when its session may have expired, so a task that is reaped of it does not wait for its may_run_until, which is when its attempt
// has timed out.
type Workers interface {
	// BeatWorker is beat = beat + 1 of a worker's session that is not dead, and returns the session and the database's time. A
	// session that is dead is returned as such. jobs.ErrNotFound: there is no such session of a worker with that owner, any more.
	BeatWorker(ctx context.Context, session, owner string) (Peer, time.Time, error)
	// ReportFor is Tasks.Report for one task of a worker. It says whether the session runs the task under the token.
	ReportFor(ctx context.Context, session string, p Progress) (ours bool, err error)
	// Holds returns a running task, if the session runs it, or for no session any does; without its payload.
	Holds(ctx context.Context, session, task string) (h Held, runs bool, err error)
	// Held returns the running tasks of a session by id, those behind the id after, at most limit, without their payloads.
	Held(ctx context.Context, session, after string, limit int) ([]Held, error)
	// HeldWhole returns those of some tasks that the session runs, by id, with their payloads.
	HeldWhole(ctx context.Context, session string, tasks []string) ([]Held, error)
	// TimedOut returns running tasks of live workers whose attempts have timed out by then, at most limit, without payloads.
	TimedOut(ctx context.Context, now time.Time, limit int) ([]Held, error)
}

// Held is a running task as its row has it.
type Held struct {
	jobs.Task
	Session string
	Until   time.Time // may_run_until: of a worker's task, when its attempt times out
	Cancel  string    // reason, if its cancellation was asked for
	Chunked bool      // there are chunks of its output
}

// MostWorkers is how many sessions of workers with one owner live at most; those that join at the same moment may be a few more.
const MostWorkers = 1000

// ErrManyWorkers refuses the session of another worker.
var ErrManyWorkers = errors.New("too many sessions of workers")

// WorkerError refuses a call of a worker: what it says of its session or its attempt holds no longer. It is jobs.ErrConflict.
type WorkerError struct {
	Code string // one of the constants below
	Text string
}

func (e *WorkerError) Error() string { return e.Text }
func (e *WorkerError) Unwrap() error { return jobs.ErrConflict }

const (
	SessionExpired = "session_expired" // of the worker: open another one by a claim without a session
	StaleToken     = "stale_token"     // the session does not run the task under the token
	AttemptEnded   = "attempt_ended"   // otherwise than the worker says
	TimedOut       = "timed_out"       // the attempt's deadline has passed
)
