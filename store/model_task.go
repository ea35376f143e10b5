package store

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// taskFields is the columns of a task that {tasks} and {done} both have.
type taskFields struct {
	ID, Pool, Kind, Job string
	TaskKey             string
	TriggerAt           int64
	TriggerSeq          int
	State               string // in {tasks} a number, see rowReady; in {done} a jobs.State
	RankOrder           int
	RunAt, ExpiresAt    int64
	Attempt, Losses     int
	MaxAttempts         int
	OwnAttempts         int
	OwnTimeout          int64 // this and OwnBackoff in µs
	OwnBackoff          int64
	OnLost              jobs.OnLost
	LostLimit           int
	Token               int64
	Replica             unpadded
	RetryOf             string
	Reason              string
	ReasonCode          reason.Code
	Error               []byte
	ExitCode            *int
	CreatedAt           int64
	StartedAt           int64
	FinishedAt          int64  `gorm:"-:migration"` // this, Fingerprint and RetriedAs are of {done} alone
	Fingerprint         string `gorm:"-:migration"`
	RetriedAs           string `gorm:"-:migration"`
	MadeBy              string
	Tags                encoded[[]string]
	Payload             []byte
	PayloadSize         int    // of a payload above limits.ListedPayload; see storedSize
	Progress            string `gorm:"-:migration"` // of {tasks} alone, where it is read for people: a ledger.Progress
}

// taskModel is a row of {tasks}.
type taskModel struct {
	Task               taskFields `gorm:"embedded"`
	SessionID, ClaimID unpadded
	Cancel             string
	MayRunUntil        int64
	Chunked            int `gorm:"-:migration"` // 1: there are chunks of its output; read where that is asked
}

// unpadded is a text from a CHAR of MySQL, whose blanks at the end sql_mode PAD_CHAR_TO_FULL_LENGTH leaves in place.
type unpadded string

// Scan implements sql.Scanner.
func (u *unpadded) Scan(value any) error {
	var text sql.NullString
	err := text.Scan(value)
	*u = unpadded(strings.TrimRight(text.String, " "))
	return err
}

// doneModel is a row of {done}.
type doneModel struct {
	Task        taskFields `gorm:"embedded"`
	Late        int
	MayRunUntil int64
}

func (doneModel) TableName() string { return "{done}" }

// openTask is a row of {tasks}, or of {done}, with the columns that only the store uses.
type openTask struct {
	jobs.Task
	row         int           // of {tasks}: rowReady, rowWaits, rowRunning, rowLocked, rowKeyed or rowQueued
	on          string        // with rowKeyed, and where it is known: the key that it waits for
	place       *keyWaitModel // the same: its row in {key_waits}
	late        bool          // of {done}: its own result came after it was lost
	session     string
	cancel      string
	mayRunUntil time.Time
	chunked     bool           // what it writes has arrived in part, as far as that was read
	locking     ledger.Locking // what the admission was told
}

// taskColumns and doneColumns are the columns of taskFields in {tasks} and in {done}; taskFacts and doneFacts are the same without
// the payload, which may be large.
var (
	taskColumns = columnsOf(taskFields{}, append(doneAlone, "payload_size", "progress")...)
	doneColumns = columnsOf(taskFields{}, "payload_size", "progress")
	taskFacts   = columnsOf(taskFields{}, append(doneAlone, "payload_size", "progress", "payload")...)
	doneFacts   = columnsOf(taskFields{}, "payload_size", "progress", "payload")
)

// doneAlone are the columns of taskFields that {tasks} lacks.
var doneAlone = []string{"finished_at", "fingerprint", "retried_as"}

const openColumns = ", session_id, cancel, may_run_until"

// openTasks reads rows of {tasks} in the order of the statement; where is what follows the table's
// name.
func (t *tx) openTasks(columns, where string, args ...any) ([]openTask, error) {
	return list(t.openRows(columns, where, args...), (*taskModel).open)
}

func (t *tx) openRows(columns, where string, args ...any) found {
	return t.rows("SELECT "+columns+openColumns+" FROM {tasks}"+where, args...)
}

func (m *taskModel) open() openTask {
	return openTask{Task: m.Task.task(), row: rowState(m.Task.State), session: string(m.SessionID), cancel: m.Cancel, mayRunUntil: fromMicros(m.MayRunUntil), chunked: m.Chunked != 0}
}

// hasLeft reports whether a pending row has something of an earlier attempt, or of a wait.
func (r *openTask) hasLeft() bool {
	return r.Reason != "" || r.ReasonCode != "" || r.Error != "" || r.ExitCode != nil || r.cancel != ""
}

func (r openTask) id() string     { return r.ID }
func (r openTask) key() ledgerKey { return ledgerKey{r.Job, micros(r.ScheduledAt), r.Seq} }

// lockOrder sorts tasks by their primary key.
func lockOrder(a, b openTask) int { return strings.Compare(a.ID, b.ID) }

// tally is how many tasks have these values in common; since and last are the earliest and the latest of one of their times.
type tally struct {
	Job, Pool, Kind, State string
	N                      int
	Since, Last            int64
}

// State of a row in {tasks}. Rows of {done} carry the jobs.State as text.
const (
	rowReady   = 0 // due, may be claimed
	rowWaits   = 1 // for its run_at
	rowRunning = 2
	rowLocked  = 3 // for its locks; {lock_waits} has the keys
	rowKeyed   = 4 // for its kind or its key, in {key_waits}
	rowQueued  = 5 // for a slot of its job: no claim takes it
)

// rowState is the number of a state in {tasks}; not one of {done}, where it is -1.
func rowState(state string) int {
	n, err := strconv.Atoi(state)
	if err != nil {
		return -1
	}
	return n
}

// taskState reads the states of both tables.
func taskState(row string) jobs.State {
	switch rowState(row) {
	case rowReady, rowWaits, rowLocked, rowKeyed, rowQueued:
		return jobs.StatePending
	case rowRunning:
		return jobs.StateRunning
	}
	return jobs.State(row)
}

func (m *taskFields) task() jobs.Task {
	t := jobs.Task{
		ID: m.ID, Pool: m.Pool, Kind: m.Kind, Key: m.TaskKey, Job: m.Job, ScheduledAt: fromMicros(m.TriggerAt), Seq: m.TriggerSeq, State: taskState(m.State),
		Reason: m.Reason, ReasonCode: m.ReasonCode, Attempt: m.Attempt, MaxAttempts: m.MaxAttempts, OwnAttempts: m.OwnAttempts, Timeout: ownDuration(m.OwnTimeout), Backoff: ownDuration(m.OwnBackoff), Lost: m.Losses, Token: m.Token,
		Replica: string(m.Replica), Priority: -m.RankOrder, RunAt: fromMicros(m.RunAt), ExpiresAt: fromMicros(m.ExpiresAt), CreatedAt: fromMicros(m.CreatedAt), StartedAt: fromMicros(m.StartedAt),
		FinishedAt: fromMicros(m.FinishedAt), ExitCode: m.ExitCode, Error: string(m.Error), PayloadSize: max(m.PayloadSize, len(m.Payload)),
		RetryOf: m.RetryOf, Fingerprint: m.Fingerprint, RetriedAs: m.RetriedAs, Tags: m.Tags.is, By: m.MadeBy, OnLost: m.OnLost, LostLimit: m.LostLimit,
	}
	if len(m.Payload) > 0 {
		t.Payload = m.Payload
	}
	t.ProgressDone, t.ProgressText = ledger.ReadProgress(m.Progress)
	t.IdempotencyKey = t.IdempotencyKeyIn("")
	return t
}

// ownDuration reads a duration that a task has in place of its pool's.
func ownDuration(us int64) jobs.Duration { return jobs.Duration(time.Duration(us) * time.Microsecond) }

// microsOf is the inverse of ownDuration.
func microsOf(d jobs.Duration) int64 { return time.Duration(d).Microseconds() }

// encodeTags is the inverse of what task does with tags.
func encodeTags(tags []string) []byte {
	if len(tags) == 0 {
		return []byte{}
	}
	b, _ := json.Marshal(tags) // strings always encode
	return b
}

// outputModel is a row of {outputs}.
type outputModel struct {
	TaskID    string `gorm:"primaryKey"`
	Attempt   int    `gorm:"primaryKey;autoIncrement:false"`
	Output    []byte
	CreatedAt int64
	Spans     string
}

func (outputModel) TableName() string { return "{outputs}" }

// chunkModel is a row of {chunks}.
type chunkModel struct {
	TaskID    string `gorm:"primaryKey"`
	Token     int64  `gorm:"primaryKey;autoIncrement:false"`
	FirstByte int64  `gorm:"primaryKey;autoIncrement:false"`
	Data      []byte
}

func (chunkModel) TableName() string { return "{chunks}" }

// attemptModel is a row of {attempts}: one that ended before the task's last.
type attemptModel struct {
	TaskID                string `gorm:"primaryKey"`
	Attempt               int    `gorm:"primaryKey;autoIncrement:false"`
	State                 jobs.State
	Reason                string
	ReasonCode            reason.Code
	Token                 int64
	Replica               string
	StartedAt, FinishedAt int64
	ExitCode              *int
	Error                 []byte
}

func (m *attemptModel) attempt() jobs.Attempt {
	return jobs.Attempt{
		Attempt: m.Attempt, State: m.State, Reason: m.Reason, ReasonCode: m.ReasonCode, Token: m.Token, Replica: m.Replica,
		StartedAt: fromMicros(m.StartedAt), FinishedAt: fromMicros(m.FinishedAt), ExitCode: m.ExitCode,
		Error: strings.ToValidUTF8(string(m.Error), ""), // it may have been cut
	}
}
