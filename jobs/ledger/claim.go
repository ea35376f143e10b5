package ledger

import (
	"bytes"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Claim asks for pending tasks of one pool.
type Claim struct {
	Session string
	Replica string
	Pool    string
	Hash    string // of the pool's definition; another one in the row means ErrOutdated
	Limit   int    // ≥ 1
	ID      string // of this claim, random: settles a commit whose answer was lost
	// Guard locks the pool's row inside the transaction. It is set when the lock service is the
	// store's own database, and when the pool has limits.
	Guard      bool
	MaxRunning int // 0 = no limit; exact, since it is counted under the pool's row lock
	// Skip names jobs and kinds that this replica cannot run.
	SkipJobs  []string
	SkipKinds []string
	// Now is as in Decide.
	Now func(database time.Time) (time.Time, error)
	// Admit is asked about each candidate: whether this replica may run it, and until when an
	// attempt that starts now may run. It must be a pure function of its arguments.
	Admit func(now time.Time, c Candidate) (until time.Time, ok bool)
}

// Candidate is a pending task that might be claimed.
type Candidate struct {
	Task    jobs.Task
	JobHash string // of the job's row; "" for a task without a job
	Policy  Policy
}

// Policy is what the row keeps for those who find its owner dead.
type Policy struct {
	MaxAttempts int
	OnLost      jobs.OnLost
}

// Claimed is what a Claim call took.
type Claimed struct {
	Now     time.Time
	Tasks   []jobs.Task
	Until   []time.Time // may_run_until of each task
	Foreign []jobs.Task // candidates that Admit refused
	More    bool        // there may be further pending tasks that are due
	Paused  bool
	Full    bool // max_running reached
}

// Verdict is what the owner says about one attempt.
type Verdict string

const (
	Ended    Verdict = "ended"     // the task reaches Result.State
	Again    Verdict = "again"     // the attempt failed, the task waits until RunAt for the next one
	HandBack Verdict = "hand_back" // claimed and never started: pending again, as if never claimed
	Died     Verdict = "died"      // the owner stopped it without an end; on_lost decides
)

// Result is the end of one attempt, written under its token. A store cuts texts that are too long, and
// refuses none for that.
type Result struct {
	TaskID   string
	Token    int64
	Verdict  Verdict
	State    jobs.State    // of the attempt: succeeded, failed, cancelled or lost
	RetryIn  time.Duration // with Again: the next attempt is due this long after the database's now
	Reason   string        // the first 512 bytes are kept
	Error    string        // the first jobs.MaxError bytes are kept
	ExitCode *int
	Output   []byte // the first jobs.MaxOutput bytes are kept
}

// Kept is r with no more of its texts than a store keeps. What is left of a text is valid UTF-8, and does
// not hold on to the rest in memory.
func (r Result) Kept() Result {
	r.Reason, r.Error = head(r.Reason, maxReason), head(r.Error, jobs.MaxError)
	if len(r.Output) > jobs.MaxOutput {
		r.Output = bytes.Clone(r.Output[:jobs.MaxOutput])
	}
	return r
}

const maxReason = 512

func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:n], ""))
}

// Finish is what became of a Result.
type Finish string

const (
	Recorded Finish = "recorded"
	Late     Finish = "late"   // the task had been declared lost; the result replaced that, once
	Fenced   Finish = "fenced" // somebody else owns the task now; nothing was written
)

// Finished is the row after a Result.
type Finished struct {
	TaskID string
	Finish Finish
	Task   jobs.Task
}

// Extension moves may_run_until of a running attempt ahead.
type Extension struct {
	TaskID string
	Token  int64
	Until  time.Time
}

// Own is a running row of one's own session.
type Own struct {
	TaskID  string
	Token   int64
	ClaimID string
	Cancel  string // reason, if somebody asked for its cancellation
}

// Reaped is a task whose owner was dead.
type Reaped struct {
	Task    jobs.Task // after: lost, or pending again
	Replica string    // the dead owner
}
