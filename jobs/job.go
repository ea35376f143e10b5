package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Concurrency says what becomes of a due time while all slots of the job are taken. A job has as many slots as its MaxRunning says. A run has one from the
// insert of its task to the end of it: also while it waits for a lock, for a retry, or for a worker. An attempt that was lost has one for as long as it may still
// be running. So no more attempts of the job run at once than it has slots, whatever fails.
//
// Manual runs and retries by hand do as due times: they are refused, wait, or replace.
type Concurrency string

const (
	Forbid Concurrency = "forbid" // the due time is skipped, the reason names the task that has the slot
	Allow  Concurrency = "allow"  // runs overlap, and there are no slots
	// Queue: up to QueueLimit due times wait, each as a pending task, and get a slot one after the other in the order in which they were due. The due
	// times beyond are skipped. While the job is suspended none gets a slot but those by hand, and the others are skipped.
	Queue Concurrency = "queue"
	// Replace: the oldest run is cancelled, and the due time gets its slot as soon as that run has ended. A slot that is about to be free, as its run was told to stop or
	// lost, is waited for, and no further run is cancelled. Only the newest due time waits: it replaces one that does.
	Replace Concurrency = "replace"
)

// Queues reports whether due times may wait for a slot.
func (c Concurrency) Queues() bool { return c == Queue || c == Replace }

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
//
// With On, an attempt is retried only if it failed with one of these codes; after any other failure its task ends as failed at once, with the reason
// code not_retried. Each failure of a [Coded] handler, as those of packages exechandler and httphandler are, goes by its code:
//
//   - the exit code of a command, 1 … 255; 128 + N if signal N ended it; 124 if its timeout is over
//   - the status of an answer, 100 … 599; 502 if no connection was made or it broke; 504 if no answer came in time
//   - none, as of a program that does not exist: not retried
//
// A lost attempt is not a failed one: OnLost decides, and On does not count. Nor does it count for an attempt that was stopped as its lock was lost, for a
// RetryAfter without a code, and for handlers that are not Coded, as jobs.Func and a [Worker]: they say what is not retried, with [Permanent]
// and with "retry": false. [Set.Validate] refuses On where nothing has such codes.
type Retries struct {
	Limit      int // further attempts after the first; default: 0 of a job, 10 of a pool, which has NoRetries for none
	Backoff    time.Duration
	MaxBackoff time.Duration
	On         []int `json:",omitempty"` // codes after which an attempt is retried, each 1 … 599, in any order; empty: after any failure
}

// Job is a definition: what to do, when, and the policies. Zero fields mean the defaults, which
// stand beside each field.
type Job struct {
	Description string
	Schedule    string   // one cron expression, macro, "@every 5m" or "@at 2026-12-24T18:00:00Z", see [Schedule]; none: run on demand only
	Schedules   []string // several; those due at one moment make one trigger
	Timezone    string   // IANA name; default UTC

	StartsAt time.Time `json:",omitzero"` // due times before it do not exist; zero: no bound
	EndsAt   time.Time `json:",omitzero"` // nor do those at it and after it

	Calendars JobCalendars `json:",omitzero"` // of the set, which leave due times out; see [Set.Compiler]

	// Spread moves all due times of the job, but for those of @at, by one offset, so that many jobs with one schedule are not due together: whole seconds, at least 0
	// and less than Spread, chosen by a hash of the job's name, see [Job.Compile]. The due times are the moved ones, for everything. It is whole seconds, up to
	// 24 h; default: none.
	Spread time.Duration `json:",omitempty"`

	// Jitter delays the start of each trigger by less than it, drawn for each due time, see [Starts]. Due times stay as they are, in the ledger and for handlers; what is
	// said of a due time that is decided late, as CatchUp.Grace, counts from the start. It is whole milliseconds, and shorter than the shortest time between two due times;
	// default: none.
	Jitter time.Duration `json:",omitempty"`

	Pool    string // default: naming.DefaultPool
	Handler Handler
	Kind    string // without a Handler: the kind of the pool's handler; "" = the pool's own
	Payload any    // what each task of the job gets, encoded as that of a NewTask: the body, or standard input

	// Params are a JSON Schema of the payload of runs by hand, as a map or as JSON, see [Job.CompileParams]; nil: any payload is right. The job's own
	// Payload, if there is one, has to match, whoever starts the run; without one, a run by hand has to bring what they require.
	Params any `json:",omitempty"`

	Timeout     time.Duration // of one attempt; default 24h
	Concurrency Concurrency   // default forbid
	MaxRunning  int           `json:",omitempty"` // slots, in all replicas, 1 … 1,000,000; default 1. Not with Allow, which has no limit
	QueueLimit  int           `json:",omitempty"` // with Queue: how many runs may wait for a slot, 1 … 1000; default 10
	OnLost      OnLost        // default fail
	LostLimit   int           `json:",omitempty"` // with OnLost retry: how many attempts of a task may be lost before it ends as lost, 1 … 100; default 3
	CatchUp     CatchUp
	Retries     Retries // default: none
	// Priority is that of the tasks that the job's triggers, manual runs and retries by hand make: among the tasks of a pool that wait, larger ones are claimed first;
	// -100 … 100. Its own attempts and the order of due times do not depend on it, and tasks that exist keep theirs.
	Priority int `json:",omitempty"`
	RunsOn   map[string]string
	Suspend  bool
	Output   Output `json:",omitzero"` // what becomes of what attempts of the job write
	Labels   map[string]string
	Notify   Notify
	Expect   Expect `json:",omitzero"`

	// SuspendAfter suspends the job when so many of its runs have failed one after the other, 1 … 1000; default: never. A run counts when its task has ended as failed
	// or as lost: an attempt that is followed by another does not, nor does a run that is cancelled. A success starts again from none. The job is suspended as by the
	// API, with an EventSuspended; whoever resumes it starts again from none, too.
	SuspendAfter int `json:",omitempty"`

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

// Recurs reports whether the job has a schedule other than @at.
func (j Job) Recurs() bool {
	return slices.ContainsFunc(j.Specs(), func(spec string) bool {
		word, _, _ := strings.Cut(strings.TrimLeft(spec, " \t"), " ")
		return word != "@at"
	})
}

// Compile reads the schedules of the job that has this name in its set. A job without any has one that is never due.
// Errors are those of [ParseSchedule]; a job with calendars is one, as those are its set's: see [Set.Compiler].
//
// The name is for H, which spreads jobs evenly over a field: H is a number of the field, in the day of month of 1–28,
// H(0-29) one of the range, and H/15 or H(0-29)/10 every 15th or 10th from one within the first step. It
// is chosen by a hash of the name, of the field, and of the place of the expression among [Job.Specs], from 0: it is
// the same in every process and every version, and another one where any of the three differs. For Spread, see there, it is a hash of the name.
// A due time is moved after zones and their jumps are done with, and before it is compared with StartsAt and EndsAt.
func (j Job) Compile(name string) (*Schedule, error) {
	if j.Calendars.Any() {
		return nil, fmt.Errorf("%w: job %.80q has calendars, which only its set has; use Set.Compiler", ErrInvalid, name)
	}
	return j.compile(name)
}

func (j Job) compile(name string) (*Schedule, error) {
	s, err := parseSchedule(j.Specs(), j.Timezone, &name)
	if err != nil {
		return nil, err
	}
	if by := j.offset(name); by > 0 {
		for i, r := range s.rules {
			s.rules[i] = moved{r, by}
		}
	}
	s.starts, s.ends = j.StartsAt, j.EndsAt
	return s, nil
}
