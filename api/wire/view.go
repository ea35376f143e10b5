package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Job is a job: its definition in the configuration of the answering replica, and the state of its row.
type Job struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Schedules   []string          `json:"schedules,omitempty"`
	Timezone    string            `json:"timezone,omitempty"`
	Pool        string            `json:"pool,omitempty"`
	Kind        string            `json:"kind,omitempty"`
	Handler     string            `json:"handler,omitempty"` // what it does, for people
	Timeout     string            `json:"timeout,omitempty"` // a Go duration
	Concurrency jobs.Concurrency  `json:"concurrency,omitempty"`
	OnLost      jobs.OnLost       `json:"on_lost,omitempty"`
	RunsOn      map[string]string `json:"runs_on,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	Suspended   bool          `json:"suspended"`                    // in the end: the override, else the definition
	Override    *bool         `json:"suspended_override,omitempty"` // set by the API, until it is reset
	SuspendedBy string        `json:"suspended_by,omitempty"`
	Retired     bool          `json:"retired,omitempty"` // no live configuration has it
	NextAt      time.Time     `json:"next_at,omitzero"`
	Unrunnable  string        `json:"unrunnable,omitempty"` // why no live replica runs it
	Open        int           `json:"open"`                 // pending and running tasks
	Last        *jobs.Trigger `json:"last,omitempty"`
	LastSuccess time.Time     `json:"last_success,omitzero"`
}

// Pool is a pool: its definition in the configuration of the answering replica, and its numbers of tasks.
type Pool struct {
	Name          string    `json:"name"`
	Description   string    `json:"description,omitempty"`
	Kinds         []string  `json:"kinds,omitempty"`   // that the answering replica can run
	Workers       int       `json:"workers,omitempty"` // in one replica
	MaxRunning    int       `json:"max_running,omitempty"`
	Paused        bool      `json:"paused"`
	Override      *bool     `json:"paused_override,omitempty"` // set by the API, until it is reset
	PausedBy      string    `json:"paused_by,omitempty"`
	Retired       bool      `json:"retired,omitempty"` // no live configuration has it
	Pending       int       `json:"pending"`           // due now
	Scheduled     int       `json:"scheduled"`         // waits for its time
	Running       int       `json:"running"`
	OldestPending time.Time `json:"oldest_pending,omitzero"`
	Unrunnable    int       `json:"unrunnable,omitempty"` // of those that are due, which no live replica can run
}

// Replica is a replica.
type Replica struct {
	ID       string            `json:"id"`
	State    string            `json:"state"` // "live", "draining", or "dead": its tasks are about to be taken over
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Version  string            `json:"version,omitempty"`
	Address  string            `json:"address,omitempty"` // of its API
	Workers  int               `json:"workers,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Config   int64             `json:"config,omitempty"` // number of its load: each start has the next one, whatever the file; the highest governs
	JoinedAt time.Time         `json:"joined_at,omitzero"`
	SeenAt   time.Time         `json:"seen_at,omitzero"`
}

// Lock is a held key of the lock service.
type Lock struct {
	Key   string    `json:"key"`
	Token int64     `json:"token"`
	Owner string    `json:"owner,omitempty"`
	Meta  string    `json:"meta,omitempty"`
	Since time.Time `json:"since,omitzero"` // server time
}
