package wire

import (
	"fmt"
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
	Name          string               `json:"name"`
	Description   string               `json:"description,omitempty"`
	Kinds         []string             `json:"kinds,omitempty"`       // that the answering replica can run
	Workers       int                  `json:"workers,omitempty"`     // in one replica
	MaxRunning    int                  `json:"max_running,omitempty"` // this, rate and burst are the limits that hold: those of the override, if it has them
	Rate          jobs.Rate            `json:"rate,omitzero"`
	Burst         int                  `json:"burst,omitempty"`
	Limits        *PoolLimits          `json:"limits_override,omitempty"` // set by the API, until it is reset
	LimitsAside   []LimitAside         `json:"limits_aside,omitempty"`    // of these, what does not hold, as it does not go with the definition
	LimitsBy      string               `json:"limits_by,omitempty"`
	PerKey        KeyLimits            `json:"per_key,omitzero"` // this, per_kind and fair are those that hold, too
	PerKind       map[string]KeyLimits `json:"per_kind,omitempty"`
	Order         jobs.Order           `json:"order,omitempty"` // "key", or absent: none
	Fair          *Fair                `json:"fair,omitempty"`  // absent: keys do not share the pool
	Paused        bool                 `json:"paused"`
	Override      *bool                `json:"paused_override,omitempty"` // set by the API, until it is reset
	PausedBy      string               `json:"paused_by,omitempty"`       // "pause_on": it was paused since its attempts failed
	PausedReason  string               `json:"paused_reason,omitempty"`   // then, with the numbers
	PauseOn       *PauseOn             `json:"pause_on,omitempty"`        // what pauses it
	Retired       bool                 `json:"retired,omitempty"`         // no live configuration has it
	Pending       int                  `json:"pending"`                   // due now
	Scheduled     int                  `json:"scheduled"`                 // waits for its time
	Running       int                  `json:"running"`
	OldestPending time.Time            `json:"oldest_pending,omitzero"`
	Approximate   bool                 `json:"approximate,omitempty"` // pending and scheduled are lower bounds where they are 10,000 or more
	Unrunnable    int                  `json:"unrunnable,omitempty"`  // of those that are due, which no live replica can run
}

// PauseOn is a jobs.PauseOn in JSON.
type PauseOn struct {
	Failures string `json:"failures"` // a share, as in "50%"
	Of       int    `json:"of"`
}

// NewPauseOn is nil for none.
func NewPauseOn(on jobs.PauseOn) *PauseOn {
	if on == (jobs.PauseOn{}) {
		return nil
	}
	return &PauseOn{Failures: fmt.Sprint(on.Failures, "%"), Of: on.Of}
}

// KeyLimits are limits of a pool for the tasks with one key, or of one kind: a jobs.KeyLimits or jobs.KindLimits in JSON.
type KeyLimits struct {
	MaxRunning int       `json:"max_running,omitempty"`
	Rate       jobs.Rate `json:"rate,omitzero"`
	Burst      int       `json:"burst,omitempty"`
}

// PerKind are the limits of the kinds of a pool in JSON.
func PerKind(of map[string]jobs.KindLimits) map[string]KeyLimits {
	if len(of) == 0 {
		return nil
	}
	all := make(map[string]KeyLimits, len(of))
	for kind, l := range of {
		all[kind] = KeyLimits(l)
	}
	return all
}

// Fair is a jobs.Fair in JSON.
type Fair struct {
	Weights map[string]int `json:"weights,omitempty"`
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

// Lock is a holder of a key of the lock service, or one that waits for it.
type Lock struct {
	Key       string    `json:"key"`
	Place     int       `json:"place"`           // 0: it holds the key; 1: it is the next one to get it
	Token     int64     `json:"token,omitempty"` // of a holder
	Mode      string    `json:"mode"`            // "exclusive", "shared" or "limited"
	Limit     int       `json:"limit,omitempty"` // how many may hold it together
	Owner     string    `json:"owner,omitempty"` // the replica, or host/pid of a command
	Session   string    `json:"session,omitempty"`
	Meta      string    `json:"meta,omitempty"`
	Since     time.Time `json:"since,omitzero"`      // since when it holds the key, or waits; server time
	Remaining string    `json:"remaining,omitempty"` // a Go duration: until its session expires, if that is not renewed
}

// HeldLock names one holding of a key.
type HeldLock struct {
	Key   string `json:"key"`
	Token int64  `json:"token"`
}

// Readiness is whether a replica starts new work, with its conditions.
type Readiness struct {
	Ready      bool        `json:"ready"`
	Conditions []Condition `json:"conditions"`
}

// Condition is a condition of readiness, or a remark beside it.
type Condition struct {
	Name   string `json:"name"`             // "store", "lock", "clock", "configuration", "draining"
	Ready  bool   `json:"ready"`            // false: this replica starts nothing new
	Detail string `json:"detail,omitempty"` // for people; never empty when something is wrong
}

// AuditEntry is a write through the API, or a refused one, with its caller.
type AuditEntry struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"`               // name of the token; empty: access control was off
	Role   string    `json:"role,omitempty"`    // of the token
	Remote string    `json:"remote,omitempty"`  // address that the request came from
	Action string    `json:"action"`            // the route, as in "POST /jobs/{name}/run"; with "?force=true" if it was forced
	Object string    `json:"object,omitempty"`  // name or id that it was about; empty: several, of the requests that Count counts
	Status int       `json:"status"`            // of the answer: 2xx it was done, 403 the role was too weak
	TaskID string    `json:"task_id,omitempty"` // the first task that it made, or that was there under its idempotency key
	Tasks  int       `json:"tasks,omitempty"`   // how many
	Count  int       `json:"count,omitempty"`   // refused requests that the entry stands for, if more than one
}

// Due is a future due time.
type Due struct {
	At    time.Time `json:"at"`    // UTC
	Local string    `json:"local"` // RFC 3339 in the schedule's zone
}

// DueTimes returns the first n due times of a schedule after a time; fewer if it ends.
func DueTimes(s *jobs.Schedule, zone *time.Location, after time.Time, n int) []Due {
	all := []Due{}
	for t := s.Next(after); !t.IsZero() && len(all) < n; t = s.Next(t) {
		all = append(all, Due{At: t.UTC(), Local: t.In(zone).Format(time.RFC3339)})
	}
	return all
}
