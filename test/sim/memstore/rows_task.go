package memstore

import (
	"encoding/json"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

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
	PayloadSize int64       `col:"payload_size"` // 0: it is measured where it is read
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
	PayloadSize int64       `col:"payload_size"` // 0: it is measured where it is read
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
	Spans     string `col:"spans"`
}

type chunkKey struct {
	TaskID       string
	Token, First int64
}

// Chunk is a row of chunks.
type Chunk struct {
	TaskID string `col:"task_id"`
	Token  int64  `col:"token"`
	First  int64  `col:"first_byte"`
	Data   []byte `col:"data"`
}

// Result is a row of results.
type Result struct {
	TaskID string `col:"task_id"`
	Result []byte `col:"result"`
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
