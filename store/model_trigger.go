package store

import (
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
}

func (m *triggerModel) trigger() jobs.Trigger {
	return jobs.Trigger{
		Job: m.Job, At: fromMicros(m.At), Seq: m.Seq, Until: fromMicros(m.UntilAt), Count: m.DueCount, Cause: jobs.Cause(m.Cause), By: m.ByWhom, Outcome: jobs.Outcome(m.Outcome),
		Reason: m.Reason, ReasonCode: m.ReasonCode, Result: jobs.State(m.Result), TaskID: m.TaskID, Replica: m.Replica,
		DecidedAt: fromMicros(m.DecidedAt), StartedAt: fromMicros(m.StartedAt), FinishedAt: fromMicros(m.FinishedAt),
	}
}

var triggerColumns = columnsOf(triggerModel{})

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
