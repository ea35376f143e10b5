// Package reason lists the codes that say why a trigger, a task or an attempt is in its state: one word for programs, beside
// a sentence for people. What a code means does not change; sentences may.
package reason

// Code is one of the constants below; empty: there is nothing to say, as of what succeeded.
type Code string

// Of due times that did not run.
const (
	Suspended       Code = "suspended"        // the job is suspended
	SkipNext        Code = "skip_next"        // a user has skipped it before it was due
	SlotTaken       Code = "slot_taken"       // as many runs of the job are open as there may be, and the job forbids a further one
	QueueFull       Code = "queue_full"       // as many runs of the job wait for a slot as may
	Replaced        Code = "replaced"         // a newer run of the job took its place; also of tasks
	LostMayRun      Code = "lost_may_run"     // a lost attempt of the job may still be running
	CatchUpNone     Code = "catch_up_none"    // too late, and the job catches up on nothing
	CatchUpWindow   Code = "catch_up_window"  // too late, and older than the job's catch-up window
	CatchUpLatest   Code = "catch_up_latest"  // too late, and a later due time runs in its place
	CatchUpLimit    Code = "catch_up_limit"   // too late, and beyond the job's catch-up limit
	Calendar        Code = "calendar"         // a calendar of the job leaves it out
	ScheduleChanged Code = "schedule_changed" // the schedule was edited before the due time was decided
	JobRemoved      Code = "job_removed"      // no configuration has the job any more; also of tasks
)

// Of attempts that ended, and with the last one of their tasks and triggers.
const (
	Error              Code = "error"                // the handler returned an error
	ExitCode           Code = "exit_code"            // the command ended with a code other than 0
	MemoryLimit        Code = "memory_limit"         // the command was killed at the memory limit of its attempts
	NotRetried         Code = "not_retried"          // failed with a code that retries.on of its job or pool does not list
	Panic              Code = "panic"                // the handler panicked
	Timeout            Code = "timeout"              // stopped after the task's timeout
	Cancelled          Code = "cancelled"            // a user cancelled the task
	CancelledByHandler Code = "cancelled_by_handler" // the handler cancelled the task
	Drained            Code = "drained"              // stopped because its replica was
	SessionExpired     Code = "session_expired"      // stopped because its replica could not renew its session
	ReplicaDied        Code = "replica_died"         // its replica was declared dead
	OutcomeUnknown     Code = "outcome_unknown"      // the handler does not know how far it came
	LostLimit          Code = "lost_limit"           // lost, as were as many attempts before as a task may lose
	Quarantined        Code = "quarantined"          // lost, as were as many attempts before as a task may lose, each with the replica that had it
	Late               Code = "late"                 // succeeded after its replica had been declared dead
	RecordRefused      Code = "record_refused"       // recorded without its texts, which the store refused
	LockLost           Code = "lock_lost"            // stopped because one of its locks was lost
)

// Of events about runs that are late, see jobs.Expect.
const (
	StartLate  Code = "start_late"  // it had not started when it was expected to
	FinishLate Code = "finish_late" // it had not ended when it was expected to
)

// Of runs that a user asked for, and of tasks that wait.
const (
	Ordered        Code = "ordered"         // a user has ordered the run for its time
	Backfill       Code = "backfill"        // it is a run of a backfill
	PayloadRefused Code = "payload_refused" // a run that was ordered, whose payload the job's params do not accept

	Forced    Code = "forced"     // started although a lost attempt might have been running
	Retry     Code = "retry"      // a user had an ended task run again
	NoRoom    Code = "no_room"    // handed back: its replica had no descriptors, processes or memory for it
	ClaimLost Code = "claim_lost" // handed back: the answer to its claim was lost
	Snoozed   Code = "snoozed"    // put off by its handler
	NoPool    Code = "no_pool"    // no live configuration has its pool
	NoHandler Code = "no_handler" // no live replica has a handler for its kind
	NoWorker  Code = "no_worker"  // no live worker over HTTP takes its kind, which is for workers
	NoReplica Code = "no_replica" // no live replica has the labels that its job or its pool runs on

	WaitsForSlot Code = "waits_for_slot" // waits for a slot of its job: as many runs are open as may be at once
	WaitsForKind Code = "waits_for_kind" // waits for its kind: the pool's limits for tasks of that kind let no more of them start now
	WaitsForKey  Code = "waits_for_key"  // waits for its key: the pool's limits for tasks with one key, or its order, let no more of them start
	WaitsForLock Code = "waits_for_lock" // waits for a lock that is held, or that other tasks wait for before it
	Expired      Code = "expired"        // ended before an attempt started: its expires_at came
	LockWait     Code = "lock_wait"      // ended before it started: it has waited for its locks as long as it may
	LockKey      Code = "lock_key"       // failed before it started: the key of a lock cannot be made of its payload
)

// Of tasks, as "why" explains them.
const (
	NoLiveReplica   Code = "no_live_replica"   // no replica is live that takes tasks
	OtherDefinition Code = "other_definition"  // no live replica has the definition that governs the pool
	NotDue          Code = "not_due"           // its run_at is in the future
	Backoff         Code = "backoff"           // waits for another attempt after one that failed or was lost
	Paused          Code = "paused"            // everything is paused
	PoolPaused      Code = "pool_paused"       // its pool is paused
	OrderChanged    Code = "order_changed"     // the order of its pool has changed, and nothing of it starts until all its tasks are sorted anew
	LockServiceDown Code = "lock_service_down" // the lock service does not answer, and nothing that needs it starts
	MaxRunning      Code = "max_running"       // as many tasks of the pool run as may at once; of a backfill: as many of its runs are open
	Rate            Code = "rate"              // the rate of the pool lets none start now
	WorkersBusy     Code = "workers_busy"      // all slots of the replicas that can run it are taken
	BehindOthers    Code = "behind_others"     // other tasks of the pool come before it
	Ready           Code = "ready"             // nothing holds it up: the next claim of its pool takes it
	Running         Code = "running"           // an attempt of it runs
	CancelRequested Code = "cancel_requested"  // it runs, and was asked to stop
	ReplicaSilent   Code = "replica_silent"    // it runs on a replica whose heartbeats have stopped
	Succeeded       Code = "succeeded"         // it has ended well
	Ended           Code = "ended"             // it has ended, and nothing more is known
)

// Of due times, as "why" explains them beside the codes above.
const (
	Due          Code = "due"            // it is to come, and nothing is known that would stop it
	Undecided    Code = "undecided"      // it has passed, and no replica has decided it yet
	NotADueTime  Code = "not_a_due_time" // the job is not due then
	ByHand       Code = "by_hand"        // no due time: a run by hand was asked for then
	OnDemand     Code = "on_demand"      // the job has no schedule
	NoFurther    Code = "no_further"     // the schedule has no further due time
	BeforeJob    Code = "before_job"     // the job was not known then
	BeforeLedger Code = "before_ledger"  // the ledger has no rows of then any more
	NoRow        Code = "no_row"         // it is a due time of the present schedule, and has no row in the ledger
	WasPaused    Code = "was_paused"     // everything was paused when it was due, and it was decided after that
	DecidedLate  Code = "decided_late"   // it was decided later than a second after it was due
	Outage       Code = "outage"         // nothing was decided then: no replica lived, or none reached the store
	OtherDecider Code = "other_decider"  // another replica decided it than the owner of its stripe, which had left it
	ClockApart   Code = "clock_apart"    // the clocks of its decider and of the database were more than a second apart
	StoreSlow    Code = "store_slow"     // the store took more than a second for the decision
	StartedLate  Code = "started_late"   // its first attempt started more than a second after it was decided
	Resumed      Code = "resumed"        // its definition suspends the job, and an override has it run
	OtherConfig  Code = "other_config"   // the configuration that governs has the job otherwise than the replica that answers
)
