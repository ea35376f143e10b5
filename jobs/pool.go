package jobs

import "time"

// Pool is a task pool: a named queue with limits, shared by all replicas. Zero fields mean the
// defaults, which stand beside each field.
type Pool struct {
	Description string
	Workers     int       // attempts at once in one replica; default 10
	MaxRunning  int       // attempts at once in all replicas, exact; 0 = no limit
	Rate        Rate      `json:",omitzero"`  // starts in all replicas, exact; zero = no limit
	Burst       int       `json:",omitempty"` // starts at once after a pause, with a Rate; default: those of one second
	PerKey      KeyLimits `json:",omitzero"`  // of the tasks with one key; zero = no limits
	// PerKind are limits by kind. They go neither with Order nor with Fair.
	PerKind   map[string]KindLimits `json:",omitempty"`
	Order     Order                 `json:",omitempty"` // in which the tasks with one key run; default none
	Fair      *Fair                 `json:",omitempty"` // shares the pool between keys; default: their tasks start by priority and due time
	PauseOn   PauseOn               `json:",omitzero"`  // pauses the pool when so many of its attempts fail; zero = never
	Timeout   time.Duration         // of one attempt; default 30m
	OnLost    OnLost                // default retry
	LostLimit int                   `json:",omitempty"` // with OnLost retry: how many attempts of a task may be lost before it ends as lost, 1 … 100; default 3
	Retries   Retries               // default: limit 10, backoff 1s, max backoff 15m
	Handler   Handler               // for tasks without a kind
	Kinds     map[string]Handler    // by the task's kind; a replica claims only kinds it knows
	Notify    Notify                // of its tasks that have no job
	Output    Output                `json:",omitzero"` // what becomes of what attempts of these tasks write

	// RunsOn are labels of the replicas that run tasks of the pool, those of jobs among them; a job's own RunsOn holds beside it. Empty: any replica. Not where workers
	// over HTTP run tasks of the pool.
	RunsOn map[string]string `json:",omitempty"`

	Locks    []Lock        `json:",omitempty"` // that what runs by its handlers holds while it runs, see [Set.LocksOf]
	LockWait time.Duration `json:",omitempty"` // a task that has waited so long for its locks is cancelled; default: no limit
}
