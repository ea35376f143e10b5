package history

import "time"

// Format is of the runs that are written now. Windows of format 0 say neither StoreHeld nor Ahead;
// audits before format 2 have neither outputs nor idempotency keys; nothing ran under "locks exec" before format 3; there were no
// workers before format 4. Rows of triggers have no Code before format 5, tasks no Cancel, ended ones
// no Until, and jobs no Schedule.
const Format = 5

// Run is run.json.
type Run struct {
	Format   int
	Cell     string            // "mariadb+redis"
	Seed     uint64            //
	Commit   string            // of the source, "-dirty" if it was changed
	Bug      string            // the seeded bug of the build; empty: none
	Versions map[string]string // go, kernel, servers
	Machine  string            // cores, memory

	SessionTTL   time.Duration
	LockTTL      time.Duration
	DrainTimeout time.Duration
	WhenDown     string        // store | wait
	Slack        time.Duration // how much later than promised a busy machine may be; 0 where figures are taken

	Cores int     // processors; 0 in old runs
	Load  float64 // the largest load of the machine when a window began; 0: not known

	// Which part of the processors' time other machines on the same hardware had, of the whole run, and of the
	// worst window with what lay before it. 0: none, or not known.
	Stolen, StolenMost float64

	Namespace string     // of the jitter: the name in the configuration, or the id of the store
	Calendars []Calendar // that jobs name

	Began     time.Time // the first replica was ready
	Quiesced  time.Time // faults were healed and clients had stopped
	Ended     time.Time // the tables were read
	Jobs      []Job
	Pools     []Pool
	Replicas  []string // ids
	Minimum   Minimum
	Files     map[string]int64 // lines of each .jsonl file at the end, bytes of leftovers.json and final.json; nil in old runs
	Directory string           `json:"-"` // where the files are
}

// Minimum is what a run must have seen to say anything.
type Minimum struct {
	Triggers int // rows of the ledger
	Tasks    int // acknowledged
	Faults   int // applied
}

// Job is a job of the run, with its due times in a form that needs no cron.
type Job struct {
	Name        string
	Due         []Every // due whenever one of them is; none: the first configuration does not have it, see Edit
	Concurrency string  // allow | forbid | queue | replace
	MaxRunning  int     // its slots, but with allow; 0: 1, as in old runs
	QueueLimit  int     // of queue: how many runs wait for a slot
	OnLost      string  // fail | retry
	Retries     int
	Lane        string        // where its effects show: "exec" or "http"
	Takes       time.Duration // how long an attempt works, about
	Timeout     time.Duration
	CatchUp     string        // none | latest | all
	Grace       time.Duration // a due time decided within it always runs
	Window      time.Duration // older due times are missed
	Limit       int           // of catch-up with "all"; 0: what jobs have that name none
	Lock        string        // that its attempts hold, no two at once; empty: none, as in old runs
	Spread      time.Duration // moves Due by less than it; whole seconds
	Jitter      time.Duration // delays each start by less than it
	Exclude     []string      // calendars in which it does not run
	Only        []string      // calendars outside of which it does not run
	Next        bool          // one due time of each closure runs at its end
}

// Calendar is a part of time with a name.
type Calendar struct {
	Name  string
	Spans []Span // in order, and apart
}

// Span is a part of time: from a moment on, and before another one.
type Span struct{ From, Until time.Time }

// Every is due at Offset, Offset + Period, … counted from the Unix epoch.
type Every struct {
	Period time.Duration
	Offset time.Duration
}

// Limits are of the tasks of a kind, or of a pool, over all replicas; 0 = none.
type Limits struct {
	MaxRunning  int
	Rate, Burst int // starts a second, and at once
}

// Pool is a pool of the run that clients feed.
type Pool struct {
	Name                   string
	OnLost                 string // fail | retry
	Retries                int
	MaxRunning             int // over all replicas; 0 = no limit
	Rate                   int // starts a second, over all replicas; 0 = no limit, as in old runs
	Burst                  int // of them at once
	PerKey                 int // as MaxRunning, of the tasks with one key
	KeyRate                int // as Rate, of the tasks with one key
	KeyBurst               int
	PerKind                map[string]Limits // kinds that are not named have none
	Fair                   bool              // replicas start the keys in turn
	Ordered                bool              // the tasks with one key run one after the other, as they were enqueued
	Unique                 bool              // clients enqueue tasks that are unique by their key while they are open
	PauseOf, PauseFailures int               // pause_on: how many the last attempts are, and what share of them has to fail, in percent; 0: nothing pauses it
	Lane                   string            // as a job's, or "worker": workers run its tasks
	Lock                   string            // as a job's
}
