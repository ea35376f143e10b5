package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// triggerModel is a row of {triggers}.
type triggerModel struct {
	Job                              string `gorm:"primaryKey"`
	At                               int64  `gorm:"primaryKey;autoIncrement:false"`
	Seq                              int    `gorm:"primaryKey;autoIncrement:false"`
	UntilAt                          int64
	DueCount                         int
	Cause                            string
	ByWhom                           string
	Outcome                          string
	Reason                           string
	ReasonCode                       reason.Code
	Result                           string
	TaskID, Replica                  string
	DecidedAt, StartedAt, FinishedAt int64
	Definition                       string
	Config                           int64
	Overdue                          bool
	ClockOffset, Took                int64
	OrderID                          string
	LockTook                         int64
}

func (m *triggerModel) trigger() jobs.Trigger {
	return jobs.Trigger{
		Job: m.Job, At: fromMicros(m.At), Seq: m.Seq, Until: fromMicros(m.UntilAt), Count: m.DueCount, Cause: jobs.Cause(m.Cause), By: m.ByWhom, Outcome: jobs.Outcome(m.Outcome),
		Reason: m.Reason, ReasonCode: m.ReasonCode, Result: jobs.State(m.Result), TaskID: m.TaskID, Replica: m.Replica,
		DecidedAt: fromMicros(m.DecidedAt), StartedAt: fromMicros(m.StartedAt), FinishedAt: fromMicros(m.FinishedAt),
		Definition: m.Definition, Config: m.Config, Order: m.OrderID,
	}
}

var triggerColumns = columnsOf(triggerModel{})

// ledgerKey is the primary key of {triggers}.
type ledgerKey struct {
	job string
	at  int64
	seq int
}

func keyOf(g jobs.Trigger) ledgerKey { return ledgerKey{g.Job, micros(g.At), g.Seq} }

func compareKeys(a, b ledgerKey) int {
	return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

// ofTrigger is the ledger row of a task. The retry of an ended task has none: task_id is that of the first.
// COALESCE keeps SQLite from the index on outcome.
//
// Index: primary key of triggers.
const ofTrigger = "{in name job, int at, int seq, name task_id}"

// born is a task that may come from a trigger.
type born interface {
	key() ledgerKey
	id() string
}

// bornOfTriggers are those of the list that come from a trigger, in the order of the ledger's key.
func bornOfTriggers[T born](list []T) []T {
	of := those(list, func(r T) bool { return r.key().job != "" })
	slices.SortFunc(of, func(a, b T) int { return compareKeys(a.key(), b.key()) })
	return of
}

// triggerKey is the parameters of ofTrigger.
func triggerKey[T born](r T) []any {
	k := r.key()
	return []any{k.job, k.at, k.seq, r.id()}
}

// eventModel is a row of {events}.
type eventModel struct {
	ID              string
	Event           jobs.Event
	Job, Pool       string
	TriggerAt       int64
	TriggerSeq      int
	UntilAt         int64
	DueCount        int
	TaskID          string
	Attempt         int
	Replica, Reason string
	ReasonCode      reason.Code
	Error           []byte
	HappenedAt      int64
}

func (m *eventModel) event() ledger.Event {
	return ledger.Event{Seq: m.TriggerSeq, Notification: jobs.Notification{
		ID: m.ID, Event: m.Event, Job: m.Job, Pool: m.Pool, ScheduledAt: fromMicros(m.TriggerAt), Until: fromMicros(m.UntilAt), Count: m.DueCount,
		TaskID: m.TaskID, Attempt: m.Attempt, Replica: m.Replica, Reason: m.Reason, ReasonCode: m.ReasonCode, Error: string(m.Error),
		At: fromMicros(m.HappenedAt),
	}}
}
