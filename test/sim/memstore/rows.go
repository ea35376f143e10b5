package memstore

import (
	"encoding/json"
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
	JoinedAt    int64  `col:"joined_at"`
	SeenAt      int64  `col:"seen_at"`
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
	Name        string `col:"name"`
	Stripe      int    `col:"stripe"`
	Hash        string `col:"hash"`
	Schedule    string `col:"schedule"`
	Config      int64  `col:"config"`
	Cursor      int64  `col:"cursor_at"`
	Next        int64  `col:"next_at"`
	Waiting     int64  `col:"waiting_at"`
	Fence       int64  `col:"fence"`
	Suspended   *bool  `col:"suspended"`
	SuspendedBy string `col:"suspended_by"`
	BusyUntil   int64  `col:"busy_until"`
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
}

// States of a row of tasks.
const (
	Ready   = 0 // due, may be claimed
	Waits   = 1 // for its run_at
	Running = 2
	Locked  = 3 // for its locks
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

// Task is a row of tasks.
type Task struct {
	ID          string      `col:"id"`
	Pool        string      `col:"pool"`
	Kind        string      `col:"kind"`
	TaskKey     string      `col:"task_key"`
	Job         string      `col:"job"`
	TriggerAt   int64       `col:"trigger_at"`
	TriggerSeq  int         `col:"trigger_seq"`
	State       int         `col:"state"`
	Rank        int         `col:"rank_order"`
	RunAt       int64       `col:"run_at"`
	ExpiresAt   int64       `col:"expires_at"`
	Attempt     int         `col:"attempt"`
	Failures    int         `col:"failures"`
	Losses      int         `col:"losses"`
	MaxAttempts int         `col:"max_attempts"`
	OwnAttempts int         `col:"own_attempts"`
	OwnTimeout  int64       `col:"own_timeout"`
	OwnBackoff  int64       `col:"own_backoff"`
	OnLost      string      `col:"on_lost"`
	LostLimit   int         `col:"lost_limit"`
	Token       int64       `col:"token"`
	Session     string      `col:"session_id"`
	Replica     string      `col:"replica"`
	ClaimID     string      `col:"claim_id"`
	MayRunUntil int64       `col:"may_run_until"`
	Cancel      string      `col:"cancel"`
	Key         string      `col:"idem_key"`
	Payload     []byte      `col:"payload"`
	Tags        []byte      `col:"tags"`
	RetryOf     string      `col:"retry_of"`
	Reason      string      `col:"reason"`
	ReasonCode  reason.Code `col:"reason_code"`
	Error       string      `col:"error"`
	ExitCode    *int        `col:"exit_code"`
	CreatedAt   int64       `col:"created_at"`
	StartedAt   int64       `col:"started_at"`
	By          string      `col:"made_by"`
	Progress    string      `col:"progress"`
}

// Done is a row of done.
type Done struct {
	ID          string      `col:"id"`
	Pool        string      `col:"pool"`
	Kind        string      `col:"kind"`
	TaskKey     string      `col:"task_key"`
	Job         string      `col:"job"`
	TriggerAt   int64       `col:"trigger_at"`
	TriggerSeq  int         `col:"trigger_seq"`
	State       string      `col:"state"`
	Rank        int         `col:"rank_order"`
	RunAt       int64       `col:"run_at"`
	ExpiresAt   int64       `col:"expires_at"`
	Attempt     int         `col:"attempt"`
	Failures    int         `col:"failures"`
	Losses      int         `col:"losses"`
	MaxAttempts int         `col:"max_attempts"`
	OwnAttempts int         `col:"own_attempts"`
	OwnTimeout  int64       `col:"own_timeout"`
	OwnBackoff  int64       `col:"own_backoff"`
	OnLost      string      `col:"on_lost"`
	LostLimit   int         `col:"lost_limit"`
	Token       int64       `col:"token"`
	Session     string      `col:"session_id"`
	Replica     string      `col:"replica"`
	Key         string      `col:"idem_key"`
	Payload     []byte      `col:"payload"`
	Tags        []byte      `col:"tags"`
	RetryOf     string      `col:"retry_of"`
	Reason      string      `col:"reason"`
	ReasonCode  reason.Code `col:"reason_code"`
	Error       string      `col:"error"`
	ExitCode    *int        `col:"exit_code"`
	CreatedAt   int64       `col:"created_at"`
	StartedAt   int64       `col:"started_at"`
	FinishedAt  int64       `col:"finished_at"`
	MayRunUntil int64       `col:"may_run_until"`
	Late        bool        `col:"late"`
	By          string      `col:"made_by"`
	Fingerprint string      `col:"fingerprint"`
	RetriedAs   string      `col:"retried_as"`
}

// attemptKey is the primary key of attempts and outputs.
type attemptKey struct {
	TaskID  string
	Attempt int
}

type attempt struct {
	TaskID     string      `col:"task_id"`
	Attempt    int         `col:"attempt"`
	State      string      `col:"state"`
	Reason     string      `col:"reason"`
	ReasonCode reason.Code `col:"reason_code"`
	Token      int64       `col:"token"`
	Replica    string      `col:"replica"`
	StartedAt  int64       `col:"started_at"`
	FinishedAt int64       `col:"finished_at"`
	ExitCode   *int        `col:"exit_code"`
	Error      string      `col:"error"`
}

type output struct {
	TaskID    string `col:"task_id"`
	Attempt   int    `col:"attempt"`
	Output    []byte `col:"output"`
	CreatedAt int64  `col:"created_at"`
}

// Result is a row of results.
type Result struct {
	TaskID string `col:"task_id"`
	Result []byte `col:"result"`
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

func (r Task) key() TriggerKey { return TriggerKey{r.Job, r.TriggerAt, r.TriggerSeq} }

func (r Task) task() jobs.Task {
	state := jobs.StatePending
	if r.State == Running {
		state = jobs.StateRunning
	}
	t := r.done(string(state)).task()
	t.ProgressDone, t.ProgressText = ledger.ReadProgress(r.Progress)
	return t
}

// done is the row as it ends.
func (r Task) done(state string) Done {
	return Done{
		ID: r.ID, Pool: r.Pool, Kind: r.Kind, TaskKey: r.TaskKey, Job: r.Job, TriggerAt: r.TriggerAt, TriggerSeq: r.TriggerSeq, State: state,
		Rank: r.Rank, RunAt: r.RunAt, ExpiresAt: r.ExpiresAt, Attempt: r.Attempt, Failures: r.Failures, Losses: r.Losses, MaxAttempts: r.MaxAttempts, OwnAttempts: r.OwnAttempts, OwnTimeout: r.OwnTimeout, OwnBackoff: r.OwnBackoff,
		OnLost: r.OnLost, LostLimit: r.LostLimit, Token: r.Token, Session: r.Session, Replica: r.Replica, Key: r.Key, Payload: r.Payload, Tags: r.Tags,
		RetryOf: r.RetryOf, Reason: r.Reason, ReasonCode: r.ReasonCode, Error: r.Error, ExitCode: r.ExitCode, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, By: r.By,
	}
}

func (r Done) task() jobs.Task {
	t := jobs.Task{
		ID: r.ID, Pool: r.Pool, Kind: r.Kind, Key: r.TaskKey, Job: r.Job, ScheduledAt: fromMicros(r.TriggerAt), Seq: r.TriggerSeq,
		State: jobs.State(r.State), Reason: r.Reason, ReasonCode: r.ReasonCode, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, OwnAttempts: r.OwnAttempts, Timeout: own(r.OwnTimeout), Backoff: own(r.OwnBackoff), Lost: r.Losses, Token: r.Token,
		Replica: r.Replica, Priority: -r.Rank, RunAt: fromMicros(r.RunAt), ExpiresAt: fromMicros(r.ExpiresAt), CreatedAt: fromMicros(r.CreatedAt),
		StartedAt: fromMicros(r.StartedAt), FinishedAt: fromMicros(r.FinishedAt), ExitCode: r.ExitCode, Error: r.Error,
		RetryOf: r.RetryOf, Fingerprint: r.Fingerprint, RetriedAs: r.RetriedAs, OnLost: jobs.OnLost(r.OnLost), LostLimit: r.LostLimit, By: r.By,
	}
	if len(r.Payload) > 0 {
		t.Payload, t.PayloadSize = r.Payload, len(r.Payload)
	}
	if len(r.Tags) > 0 {
		_ = json.Unmarshal(r.Tags, &t.Tags) // as it was encoded here
	}
	t.IdempotencyKey = t.IdempotencyKeyIn("")
	return t
}

// own is a duration that a task has in place of its pool's.
func own(us int64) jobs.Duration { return jobs.Duration(time.Duration(us) * time.Microsecond) }
