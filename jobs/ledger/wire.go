package ledger

import (
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What the store and the replica answer that the API hands on as it is.
type (
	AuditEntry    = wire.AuditEntry
	Condition     = wire.Condition
	Enqueued      = jobs.Enqueued
	Overview      = wire.Overview
	Broken        = wire.FailingJob
	Trouble       = wire.Trouble
	Wrong         = wire.TroubleCount
	Next          = wire.NextDue
	Running       = wire.RunningTask
	Page          = wire.Page
	TaskFilter    = wire.TaskFilter
	TriggerFilter = wire.TriggerFilter
	Retention     = jobs.Retention
)
