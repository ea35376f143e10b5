package jobs

import "time"

// Concurrency says what happens to a due time while an earlier run of the job still has its slot.
type Concurrency string

const (
	Forbid Concurrency = "forbid" // the due time is skipped, the reason names the task that has the slot
	Allow  Concurrency = "allow"  // runs overlap
)

// CatchUpPolicy says which of the due times that were not decided in time still run.
type CatchUpPolicy string

const (
	CatchUpNone   CatchUpPolicy = "none"
	CatchUpLatest CatchUpPolicy = "latest"
	CatchUpAll    CatchUpPolicy = "all"
)

// OnLost says what becomes of a task whose replica died while it ran.
type OnLost string

const (
	LostFails   OnLost = "fail"  // ends as lost: started at most once
	LostRetries OnLost = "retry" // runs again, until three attempts were lost
)

// CatchUp bounds what is made up for after an outage. Zero fields mean the defaults.
type CatchUp struct {
	Policy CatchUpPolicy // default latest
	Window time.Duration // default 24h: due times older than this are missed
	Limit  int           // with policy all: at most this many, the latest ones; default 10
	Grace  time.Duration // default 10s: a due time decided within it always runs
}

// Retries bounds what happens after a failed attempt. Attempt n+1 starts
// min(Backoff·2ⁿ⁻¹, MaxBackoff) after attempt n, ± 20 % jitter.
type Retries struct {
	Limit      int // further attempts after the first; default: 0 of a job, 10 of a pool, which has NoRetries for none
	Backoff    time.Duration
	MaxBackoff time.Duration
}

// Job is a definition: what to do, when, and the policies. Zero fields mean the defaults, which
// stand beside each field.
type Job struct {
	Description string
	Schedule    string   // one cron expression, macro or "@every 5m"; none: run on demand only
	Schedules   []string // several; those due at one moment make one trigger
	Timezone    string   // IANA name; default UTC

	Pool    string // default: naming.DefaultPool
	Handler Handler
	Kind    string // without a Handler: the kind of the pool's handler; "" = the pool's own
	Payload any    // what each task of the job gets, encoded as that of a NewTask: the body, or standard input

	Timeout     time.Duration // of one attempt; default 24h
	Concurrency Concurrency   // default forbid
	OnLost      OnLost        // default fail
	LostLimit   int           `json:",omitempty"` // with OnLost retry: how many attempts of a task may be lost before it ends as lost, 1 … 100; default 3
	CatchUp     CatchUp
	Retries     Retries // default: none
	RunsOn      map[string]string
	Suspend     bool
	Labels      map[string]string
	Notify      Notify

	Locks    []Lock        `json:",omitempty"` // that each task of the job holds while it runs, see [Set.LocksOf]; while it waits for one it has the job's slot
	LockWait time.Duration `json:",omitempty"` // a task that has waited so long for its locks is cancelled, and its trigger skipped; default: no limit
}

// Specs returns the job's schedules as one list.
func (j Job) Specs() []string {
	if j.Schedule == "" {
		return j.Schedules
	}
	return append([]string{j.Schedule}, j.Schedules...)
}

// Compile reads the job's schedules. A job without any has one that is never due.
// Errors are those of [ParseSchedule].
func (j Job) Compile() (*Schedule, error) { return ParseSchedule(j.Specs(), j.Timezone) }
