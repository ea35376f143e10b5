package memstore

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The rows have the columns of the tables that migrations makes; times are microseconds since 1970,
// 0 = none.

// Session is a row of sessions.
type Session struct {
	ID          string `col:"id"`
	Replica     string `col:"replica"`
	Live        *int64 `col:"live"`
	Dead        bool   `col:"dead"`
	Beat        int64  `col:"beat"`
	Draining    bool   `col:"draining"`
	Config      int64  `col:"config"`
	LockService string `col:"lock_service"`
	TTL         int64  `col:"ttl"`
	Host        string `col:"host"`
	BootID      string `col:"boot_id"`
	PID         int    `col:"pid"`
	PIDStart    int64  `col:"pid_start"`
	Version     string `col:"version"`
	Address     string `col:"address"`
	Workers     int    `col:"workers"`
	Labels      []byte `col:"labels"`
	Pool        string `col:"pool"`
	Kinds       []byte `col:"kinds"`
	Owner       string `col:"owner"`
	ConfigHash  string `col:"config_hash"`
	ConfigAt    int64  `col:"config_at"`
	Differs     string `col:"differs"`
	JoinedAt    int64  `col:"joined_at"`
	SeenAt      int64  `col:"seen_at"`
}

// configuration is a row of configurations.
type configuration struct {
	Hash   string `col:"hash"`
	Number int64  `col:"number"`
	At     int64  `col:"at"`
}

// Pool is a row of pools.
type Pool struct {
	Name          string        `col:"name"`
	Hash          string        `col:"hash"`
	Config        int64         `col:"config"`
	MaxRunning    int           `col:"max_running"`
	Rate          string        `col:"rate"`
	Burst         int           `col:"burst"`
	SetMaxRunning *int          `col:"set_max_running"`
	SetRate       *string       `col:"set_rate"`
	SetBurst      *int          `col:"set_burst"`
	LimitsBy      string        `col:"limits_by"`
	Bucket        ledger.Bucket `col:"bucket_full_at"`
	KeyMaxRunning int           `col:"key_max_running"`
	KeyRate       string        `col:"key_rate"`
	KeyBurst      int           `col:"key_burst"`
	KeyOrder      string        `col:"key_order"`
	KeyFair       []byte        `col:"key_fair"`
	KeyPass       int64         `col:"key_pass"`
	KindLimits    []byte        `col:"kind_limits"`
	SetKeyLimits  []byte        `col:"set_key_limits"`
	KeysLeft      bool          `col:"keys_left"`  // never: what waits for its key is found by its reason
	KeysMoved     *string       `col:"keys_moved"` // never: a change of the order moves all tasks
	MaxAttempts   int           `col:"max_attempts"`
	OnLost        string        `col:"on_lost"`
	LostLimit     int           `col:"lost_limit"`
	Paused        *bool         `col:"paused"`
	PausedBy      string        `col:"paused_by"`
	PauseWindow   string        `col:"pause_window"`
	PauseReason   string        `col:"pause_reason"`
}

// Job is a row of jobs.
type Job struct {
	Name          string `col:"name"`
	Stripe        int    `col:"stripe"`
	Hash          string `col:"hash"`
	Schedule      string `col:"schedule"`
	Config        int64  `col:"config"`
	Cursor        int64  `col:"cursor_at"`
	Next          int64  `col:"next_at"`
	Waiting       int64  `col:"waiting_at"`
	Due           int64  `col:"due_at"`
	Fence         int64  `col:"fence"`
	Suspended     *bool  `col:"suspended"`
	SuspendedBy   string `col:"suspended_by"`
	Until         int64  `col:"suspended_until"`
	SkipNext      int    `col:"skip_next"`
	SkipBy        string `col:"skip_by"`
	SuspendAfter  int    `col:"suspend_after"`
	Failures      int    `col:"failures"`
	SuspendReason string `col:"suspend_reason"`
	BusyUntil     int64  `col:"busy_until"`
	Defined       string `col:"defined"`
}

// Definition is a row of definitions.
type Definition struct {
	Job        string `col:"job"`
	Hash       string `col:"hash"`
	Definition string `col:"definition"`
	Config     int64  `col:"config"`
	FirstAt    int64  `col:"first_at"`
	SinceAt    int64  `col:"since_at"`
	UntilAt    int64  `col:"until_at"`
	Body       []byte `col:"body"`
}

type definitionKey struct{ job, hash string }

// Suspension is the override as it was set.
func (r Job) Suspension() ledger.Suspension {
	return ledger.Suspension{Suspended: r.Suspended, Until: fromMicros(r.Until)}
}

// triggerOf is the row of a trigger.
func triggerOf(g jobs.Trigger) Trigger {
	return Trigger{
		Job: g.Job, At: micros(g.At), Seq: g.Seq, Until: micros(g.Until), Count: g.Count, Cause: string(g.Cause), By: g.By,
		Outcome: string(g.Outcome), Reason: g.Reason, ReasonCode: g.ReasonCode, Result: string(g.Result), TaskID: g.TaskID, Replica: g.Replica,
		DecidedAt: micros(g.DecidedAt), StartedAt: micros(g.StartedAt), FinishedAt: micros(g.FinishedAt),
		Definition: g.Definition, Config: g.Config, Order: g.Order,
	}
}

// Pause is the row of pause.
type Pause struct {
	ID   int    `col:"id"`
	Said []byte `col:"said"`
}

// TriggerKey is the primary key of triggers.
type TriggerKey struct {
	Job string
	At  int64
	Seq int
}

// Trigger is a row of triggers.
type Trigger struct {
	Job        string      `col:"job"`
	At         int64       `col:"at"`
	Seq        int         `col:"seq"`
	Until      int64       `col:"until_at"`
	Count      int         `col:"due_count"`
	Cause      string      `col:"cause"`
	By         string      `col:"by_whom"`
	Outcome    string      `col:"outcome"`
	Reason     string      `col:"reason"`
	ReasonCode reason.Code `col:"reason_code"`
	Result     string      `col:"result"`
	TaskID     string      `col:"task_id"`
	Replica    string      `col:"replica"`
	DecidedAt  int64       `col:"decided_at"`
	StartedAt  int64       `col:"started_at"`
	FinishedAt int64       `col:"finished_at"`
	Definition string      `col:"definition"`
	Config     int64       `col:"config"`
	Overdue    bool        `col:"overdue"`
	Offset     int64       `col:"clock_offset"`
	Took       int64       `col:"took"`
	Order      string      `col:"order_id"`
	LockTook   int64       `col:"lock_took"`
}

// Expectation is a row of expectations.
type Expectation struct {
	DueBy int64  `col:"due_by"`
	Job   string `col:"job"`
	At    int64  `col:"at"`
	Seq   int    `col:"seq"`
	What  string `col:"what"`
}

// States of a row of tasks.
const (
	Ready   = 0 // due, may be claimed
	Waits   = 1 // for its run_at
	Running = 2
	Locked  = 3 // for its locks
	Queued  = 5 // for a slot of its job
)

// LockWait is a row of lock_waits.
type LockWait struct {
	Key      string `col:"lock_key"`
	Rank     int    `col:"rank_order"`
	RunAt    int64  `col:"run_at"`
	TaskID   string `col:"task_id"`
	KeyCount int    `col:"key_count"`
	Pool     string `col:"pool"`
	Work     string `col:"work"`
	Until    int64  `col:"until_at"`
	Session  string `col:"session_id"`
}

// waitKey is the primary key of lock_waits.
type waitKey struct {
	key   string
	rank  int
	runAt int64
	task  string
}

type poolKey struct{ pool, key string }

type idempotency struct {
	Pool      string `col:"pool"`
	Key       string `col:"idem_key"`
	TaskID    string `col:"task_id"`
	Body      string `col:"body"`
	CreatedAt int64  `col:"created_at"`
}

type event struct {
	ID         string      `col:"id"`
	Event      string      `col:"event"`
	Job        string      `col:"job"`
	Pool       string      `col:"pool"`
	TriggerAt  int64       `col:"trigger_at"`
	TriggerSeq int         `col:"trigger_seq"`
	Until      int64       `col:"until_at"`
	Count      int         `col:"due_count"`
	TaskID     string      `col:"task_id"`
	Attempt    int         `col:"attempt"`
	Replica    string      `col:"replica"`
	Reason     string      `col:"reason"`
	ReasonCode reason.Code `col:"reason_code"`
	Error      string      `col:"error"`
	HappenedAt int64       `col:"happened_at"`
}

// subject is who stands: its kind is "job" or "pool".
type subject struct{ kind, name string }

type standing struct {
	Kind      string `col:"kind"`
	Name      string `col:"name"`
	Failing   bool   `col:"failing"`
	SuccessAt int64  `col:"last_success_at"`
	EndAt     int64  `col:"last_end_at"`
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// own is a duration that a task has in place of its pool's.
func own(us int64) jobs.Duration { return jobs.Duration(time.Duration(us) * time.Microsecond) }
