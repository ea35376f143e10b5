package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Why says why a task is in its state: of a pending task what it waits for, of a running one where it runs, of an ended one how it ended. It is
// as the store was at At; what replicas and the lock service alone know was read right after that.
type Why struct {
	TaskID    string     `json:"task_id"`
	Pool      string     `json:"pool"`
	Kind      string     `json:"kind,omitempty"`
	Key       string     `json:"key,omitempty"`
	Job       string     `json:"job,omitempty"`
	State     jobs.State `json:"state"`
	At        time.Time  `json:"at"`                  // the store's time of the read
	ExpiresAt time.Time  `json:"expires_at,omitzero"` // it ends then if no attempt has started
	Causes    []Cause    `json:"causes"`              // at least one; the first is the one that holds it up longest, as far as that can be said
	Start     *Start     `json:"start,omitempty"`     // of a pending task
}

// Cause is one reason for the state of a task. Code and Message are always there; the other fields where they apply to the code, as
// docs/reasons.md lists.
type Cause struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"` // a sentence, which may change

	Limit string    `json:"limit,omitempty"` // with waits_for_key and waits_for_kind: "max_running", "rate", "order" or "fair"
	Max   int       `json:"max,omitempty"`   // the limit
	Rate  jobs.Rate `json:"rate,omitzero"`   // the limit
	Count int       `json:"count,omitempty"` // how many run, or come before it
	More  bool      `json:"more,omitempty"`  // and more than Count, which is as far as it was counted
	Tasks []WhyTask `json:"tasks,omitempty"` // the first of those, 20 at most
	Key   string    `json:"key,omitempty"`   // of tasks
	Locks []WhyLock `json:"locks,omitempty"` // that it waits for

	By       string    `json:"by,omitempty"`       // who paused the pool, or asked for the cancellation
	Override bool      `json:"override,omitempty"` // the API has set this, until it is reset
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // when it ends by itself

	Replicas []WhyReplica      `json:"replicas,omitempty"` // that are live, 20 at most
	RunsOn   map[string]string `json:"runs_on,omitempty"`  // labels that it requires of a replica

	Replica     string    `json:"replica,omitempty"` // that runs it, or ran it last
	SeenAt      time.Time `json:"seen_at,omitzero"`  // the last heartbeat of that replica
	MayRunUntil time.Time `json:"may_run_until,omitzero"`
	Attempt     int       `json:"attempt,omitempty"`
	MaxAttempts int       `json:"max_attempts,omitempty"`
	ExitCode    *int      `json:"exit_code,omitempty"`
	Error       string    `json:"error,omitempty"`
}

// WhyTask is another task that holds one up.
type WhyTask struct {
	ID         string      `json:"id"`
	State      jobs.State  `json:"state"`
	Replica    string      `json:"replica,omitempty"`
	StartedAt  time.Time   `json:"started_at,omitzero"`
	RunAt      time.Time   `json:"run_at,omitzero"`
	ReasonCode reason.Code `json:"reason_code,omitempty"` // why that task is in its state
	Reason     string      `json:"reason,omitempty"`
}

// WhyLock is a lock that a task waits for.
type WhyLock struct {
	Key     string `json:"key"`               // as the file has it, without "user/"
	Before  int    `json:"before"`            // tasks that wait for it and come before this one
	More    bool   `json:"more,omitempty"`    // and more than Before, which is as far as it was counted
	First   string `json:"first,omitempty"`   // id of the first of those
	Waits   string `json:"waits,omitempty"`   // the replica that waits for it at the lock service, for this task
	Holders []Lock `json:"holders,omitempty"` // 20 at most; none: it is free, or the lock service does not answer
}

// WhyReplica is a live replica, and what it has for a task.
type WhyReplica struct {
	ID          string            `json:"id"`
	State       string            `json:"state"`             // "live" or "draining"
	Kinds       []string          `json:"kinds,omitempty"`   // that it takes in the pool; "" is for tasks without a kind
	Any         bool              `json:"any,omitempty"`     // it takes any kind, or does not say
	Labels      map[string]string `json:"labels,omitempty"`  // where the task requires some
	Workers     int               `json:"workers,omitempty"` // of the replica
	Running     int               `json:"running,omitempty"` // in all pools
	PoolWorkers int               `json:"pool_workers,omitempty"`
	PoolRunning int               `json:"pool_running,omitempty"`
}

// Start is when a pending task is expected to start. It is an estimate: tasks of a higher priority may come, and the pace may change.
type Start struct {
	At        time.Time `json:"at,omitzero"`             // absent: not known
	NotBefore bool      `json:"not_before,omitempty"`    // At is the earliest time: more tasks come before it than were counted
	Unknown   string    `json:"unknown,omitempty"`       // why there is no At
	Basis     string    `json:"basis,omitempty"`         // what At was computed from
	Ahead     int       `json:"ahead"`                   // ready tasks of the pool that come before it
	More      bool      `json:"more,omitempty"`          // and more than that
	PerSecond float64   `json:"per_second,omitempty"`    // tasks of the pool that have ended, a second
	Ends      int       `json:"ends,omitempty"`          // how many that was measured by
	Since     time.Time `json:"measured_since,omitzero"` // from then to At of the answer
}
