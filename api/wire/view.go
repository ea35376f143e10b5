package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Job is a job: its definition in the configuration of the answering replica, and the state of its row.
type Job struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Schedules   []string          `json:"schedules,omitempty"`
	Timezone    string            `json:"timezone,omitempty"`
	StartsAt    time.Time         `json:"starts_at,omitzero"` // UTC; due times before it do not exist
	EndsAt      time.Time         `json:"ends_at,omitzero"`   // nor do those from it on
	Calendars   *JobCalendars     `json:"calendars,omitempty"`
	Spread      string            `json:"spread,omitempty"` // a Go duration: due times are moved by an offset below it
	Jitter      string            `json:"jitter,omitempty"` // a Go duration: each start is later than due by less than it
	Pool        string            `json:"pool,omitempty"`
	Kind        string            `json:"kind,omitempty"`
	Handler     string            `json:"handler,omitempty"` // what it does, for people
	Timeout     string            `json:"timeout,omitempty"` // a Go duration
	Concurrency jobs.Concurrency  `json:"concurrency,omitempty"`
	MaxRunning  int               `json:"max_running,omitempty"` // its slots, if they are more than one
	QueueLimit  int               `json:"queue_limit,omitempty"` // how many runs may wait for a slot, with concurrency "queue"
	OnLost      jobs.OnLost       `json:"on_lost,omitempty"`
	LostLimit   int               `json:"lost_limit,omitempty"` // of attempts of a task, with on_lost "retry"
	CatchUp     *JobCatchUp       `json:"catch_up,omitempty"`
	Retries     *JobRetries       `json:"retries,omitempty"`   // absent: none
	Locks       []JobLock         `json:"locks,omitempty"`     // that its runs hold, those of its pool among them
	LockWait    string            `json:"lock_wait,omitempty"` // a Go duration; absent: no limit
	Priority    int               `json:"priority,omitempty"`  // of its tasks; larger ones are claimed first
	RunsOn      map[string]string `json:"runs_on,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Output      *JobOutput        `json:"output,omitempty"`       // absent: what the replica keeps, and no file
	Expect      *JobExpect        `json:"expect,omitempty"`       // absent: nothing is expected of its runs
	Notify      *JobNotify        `json:"notify,omitempty"`       // absent: nobody is told of its runs
	Payload     json.RawMessage   `json:"payload,omitempty"`      // of its runs, up to 1 KiB; lists leave it out
	PayloadSize int               `json:"payload_size,omitempty"` // bytes of it
	Params      json.RawMessage   `json:"params,omitempty"`       // a JSON Schema of the payload of runs by hand; lists leave it out

	Definition *JobDefinition `json:"definition,omitempty"` // that governs; lists leave it out

	Suspended        bool          `json:"suspended"`                    // in the end: the override, else the definition
	Override         *bool         `json:"suspended_override,omitempty"` // set by the API, until it is reset
	SuspendedBy      string        `json:"suspended_by,omitempty"`       // "suspend_after": it was suspended since its runs failed
	SuspendedReason  string        `json:"suspended_reason,omitempty"`   // then, with the number
	SuspendedDefined *bool         `json:"suspended_defined,omitempty"`  // beside an override, what the definition says of it; absent: there is no override, or the replica does not have the job
	SuspendedUntil   time.Time     `json:"suspended_until,omitzero"`     // the override ends then by itself; absent: when it is reset
	SkipNext         int           `json:"skip_next,omitempty"`          // how many of the next due times a user has skipped
	SkipBy           string        `json:"skip_next_by,omitempty"`
	Paused           *Pause        `json:"paused,omitempty"`        // everything is; lists leave it out
	SuspendAfter     int           `json:"suspend_after,omitempty"` // how many runs that fail in a row suspend it
	Failures         int           `json:"failures,omitempty"`      // of the last runs, in a row, with suspend_after
	Retired          bool          `json:"retired,omitempty"`       // no live configuration has it
	NextAt           time.Time     `json:"next_at,omitzero"`        // when it is to run next
	NextStartAt      time.Time     `json:"next_start_at,omitzero"`  // when what is due then starts, of a job with jitter
	Unrunnable       string        `json:"unrunnable,omitempty"`    // why no live replica or worker runs it
	Open             int           `json:"open"`                    // pending and running tasks
	Orders           []Order       `json:"orders,omitempty"`        // those that are open, the latest first, without their payloads; lists leave them out
	MoreOrders       bool          `json:"more_orders,omitempty"`   // and more than these
	Last             *jobs.Trigger `json:"last,omitempty"`
	LastSuccess      time.Time     `json:"last_success,omitzero"`
}

// JobDefinition is the definition of a job that governs, as its history has it.
type JobDefinition struct {
	Hash    string    `json:"hash"`              // triggers name it so
	Config  int64     `json:"config"`            // number of the configuration that brought it first
	Since   time.Time `json:"since"`             // when it began to govern last
	Differs bool      `json:"differs,omitempty"` // the replica that answers has the job otherwise, and what it says of the job is its own
	Own     string    `json:"own,omitempty"`     // then: what the history names that by, if it is there
}

// JobCalendars are the calendars of a job, by name.
type JobCalendars struct {
	Exclude   []string       `json:"exclude,omitempty"`
	Only      []string       `json:"only,omitempty"`
	Otherwise jobs.Otherwise `json:"otherwise"`
}

// NewJobCalendars is nil for a job without any.
func NewJobCalendars(c jobs.JobCalendars) *JobCalendars {
	if !c.Any() {
		return nil
	}
	return &JobCalendars{c.Exclude, c.Only, cmp.Or(c.Otherwise, jobs.OtherwiseSkip)}
}

// String is for people: "not in holidays; only in office; else when that ends".
func (c *JobCalendars) String() string {
	if c == nil {
		return ""
	}
	var parts []string
	if len(c.Exclude) > 0 {
		parts = append(parts, "not in "+strings.Join(c.Exclude, ", "))
	}
	if len(c.Only) > 0 {
		parts = append(parts, "only in "+strings.Join(c.Only, " and "))
	}
	if c.Otherwise == jobs.OtherwiseNext {
		parts = append(parts, "else when that ends")
	}
	return strings.Join(parts, "; ")
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
	RunsOn        map[string]string    `json:"runs_on,omitempty"` // labels of the replicas that run its tasks
	Order         jobs.Order           `json:"order,omitempty"`   // "key", or absent: none
	Fair          *Fair                `json:"fair,omitempty"`    // absent: keys do not share the pool
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
	ID         string            `json:"id"`
	State      string            `json:"state"` // "live", "draining", or "dead": its tasks are about to be taken over
	Host       string            `json:"host,omitempty"`
	PID        int               `json:"pid,omitempty"`
	Version    string            `json:"version,omitempty"`
	Address    string            `json:"address,omitempty"` // of its API
	Workers    int               `json:"workers,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Config     int64             `json:"config,omitempty"`      // number of its configuration, given once to its content; the highest one of live replicas governs
	ConfigHash string            `json:"config_hash,omitempty"` // of that content, in hex
	ConfigTime time.Time         `json:"config_time,omitzero"`  // when its file was written
	Governs    bool              `json:"governs,omitempty"`     // no live replica has a newer configuration
	Differs    string            `json:"differs,omitempty"`     // what the configuration that governs has otherwise
	JoinedAt   time.Time         `json:"joined_at,omitzero"`
	SeenAt     time.Time         `json:"seen_at,omitzero"`
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
	Name   string `json:"name"`             // "store", "lock", "clock", "configuration", "draining"; "paused" while everything is
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
	// RunsAt is when it runs, if that is later: when the closure of its calendars ends (otherwise: next). UTC.
	RunsAt  time.Time `json:"runs_at,omitzero"`
	LeftOut []LeftOut `json:"left_out,omitempty"` // due times before it, since the one before, that calendars leave out, by calendar

	// When its trigger starts, if that is later than At: by jitter, or at the end of that closure. Where it is not known in which namespace jitter is drawn,
	// it is before StartBefore instead. Both are UTC.
	StartAt     time.Time `json:"start_at,omitzero"`
	StartBefore time.Time `json:"start_before,omitzero"`
}

// JobDue is a future due time of a job. It does not say what its calendars leave out.
type JobDue struct {
	Job string `json:"job"`
	Due
	Suspended bool `json:"suspended,omitempty"` // it will be skipped, unless the job is resumed
}

// LeftOut is how many due times a calendar leaves out.
type LeftOut struct {
	Calendar string `json:"calendar"`
	Count    int    `json:"count"`
}

// DueTimes returns the first n due times of a job with that schedule that start after a time; fewer if it ends. The namespace is that of
// [jobs.Starts]; nil: it is not known, and jitter counts as none.
func DueTimes(job jobs.Job, name string, s *jobs.Schedule, namespace *string, zone *time.Location, after time.Time, n int) []Due {
	all := []Due{}
	begun := s.Fired(after)
	if namespace != nil {
		begun = job.Starts(s, name, *namespace).Begun(after)
	}
	last := after
	for t := s.Next(begun); !t.IsZero() && len(all) < n; t = s.Next(t) {
		due := NewDue(t, zone)
		due.LeftOut = leftOut(s, last, t)
		due.AddStart(job, name, s, namespace)
		all, last = append(all, due), t
	}
	return all
}

// leftOut counts the due times between two others that calendars leave out.
func leftOut(s *jobs.Schedule, after, before time.Time) (all []LeftOut) {
	const most = 1000 // stretches
	stretches, _ := s.LeftOut(after, before, most)
	for _, o := range stretches {
		i := slices.IndexFunc(all, func(c LeftOut) bool { return c.Calendar == o.Calendar })
		if i < 0 {
			i, all = len(all), append(all, LeftOut{Calendar: o.Calendar})
		}
		all[i].Count += o.Count
	}
	return all
}

// NewDue is a due time of a schedule in that zone.
func NewDue(at time.Time, zone *time.Location) Due {
	return Due{At: at.UTC(), Local: at.In(zone).Format(time.RFC3339)}
}

// AddStart adds when the trigger of a due time of a job starts, by the schedule of the job. The namespace is that of [jobs.Starts]; nil: it is not known.
func (d *Due) AddStart(job jobs.Job, name string, times *jobs.Schedule, namespace *string) {
	if fires := times.Fires(d.At); fires.After(d.At) {
		d.RunsAt = fires.UTC()
	}
	switch {
	case job.Jitter == 0:
		d.StartAt = d.RunsAt
	case namespace != nil:
		d.StartAt = job.Starts(times, name, *namespace).Of(d.At)
	default:
		d.StartBefore = job.Starts(times, name, "").By(d.At)
	}
}
