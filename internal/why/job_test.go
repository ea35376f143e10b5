package why_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// hourly is a job that is due each hour and whose latest due time ran; nothing is in the way of its next one.
func hourly() (ledger.JobFacts, why.HereOfJob) {
	schedule, err := jobs.ParseSchedule([]string{"@hourly"}, "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	f := ledger.JobFacts{
		At: now, Job: ledger.JobStatus{Job: wire.Job{Name: "sync", NextAt: at(time.Hour)}, Hash: "h", Config: 7, Cursor: now}, About: at(time.Hour),
		First: at(-48 * time.Hour), Known: at(-72 * time.Hour), Definition: &wire.Definition{Job: "sync", Hash: "3f9a"},
		Before: &jobs.Trigger{Job: "sync", At: now},
		Next:   idle(),
	}
	f.Next.Task = jobs.Task{Pool: "mail", Kind: "welcome", Job: "sync", State: jobs.StatePending, RunAt: at(time.Hour), CreatedAt: at(time.Hour)}
	return f, why.HereOfJob{Here: why.Here{Replica: "r1"}, Known: true, Schedule: schedule, Zone: zone, Policy: jobs.Forbid}
}

// jittered is 20 seconds of jitter.
func jittered(due time.Time) time.Time { return due.Add(20 * time.Second) }

// decided makes the due time two hours ago one with a row.
func decided(f *ledger.JobFacts, change func(r *ledger.DecidedRow)) {
	f.About, f.Next = at(-2*time.Hour), ledger.Facts{}
	f.Row = &ledger.DecidedRow{Trigger: jobs.Trigger{
		Job: "sync", At: f.About, Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Ran, Result: jobs.StateSucceeded, TaskID: "t1", Replica: "r2",
		DecidedAt: at(-2*time.Hour + 4*time.Millisecond), StartedAt: at(-2*time.Hour + 5*time.Millisecond), FinishedAt: at(-time.Hour), Definition: "3f9a", Config: 7,
	}, Took: 3 * time.Millisecond, LockTook: 1500 * time.Microsecond}
	f.Task = &jobs.Task{ID: "t1", State: jobs.StateSucceeded, Replica: "r2", Attempt: 1, MaxAttempts: 1, StartedAt: f.Row.StartedAt}
	change(f.Row)
	if f.Row.TaskID == "" {
		f.Task = nil
	}
}

// closed is half past each hour, but for the second of March.
func closed(otherwise jobs.Otherwise) *jobs.Schedule {
	set := jobs.Set{Calendars: map[string]jobs.Calendar{"holidays": {Dates: []string{"2026-03-02"}}}}
	job := jobs.Job{Schedule: "30 * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"holidays"}, Otherwise: otherwise}}
	s, err := set.Compiler().Compile("sync", job)
	if err != nil {
		panic(err)
	}
	return s
}

// skipped is a row without a task.
func skipped(r *ledger.DecidedRow, o jobs.Outcome, code reason.Code, why string) {
	r.Outcome, r.ReasonCode, r.Reason, r.Result, r.TaskID, r.StartedAt, r.FinishedAt = o, code, why, "", "", time.Time{}, time.Time{}
}

// among asks about a time in a row for the due times of three hours.
func among(f *ledger.JobFacts, about time.Duration) {
	decided(f, func(r *ledger.DecidedRow) {
		skipped(r, jobs.Skipped, reason.Suspended, "suspended")
		r.At, r.Until, r.Count = at(-3*time.Hour), at(-time.Hour), 3
	})
	f.About, f.Before, f.Row.DecidedAt = at(about), nil, at(-time.Hour+time.Millisecond)
}

// leftOut is a row for the due times that a closure of some hours leaves out, asked about the day after.
func leftOut(f *ledger.JobFacts, h *why.HereOfJob) {
	decided(f, func(r *ledger.DecidedRow) {
		skipped(r, jobs.Skipped, reason.Calendar, "calendar holidays excludes it")
		r.At, r.Until, r.Count = at(18*time.Hour+30*time.Minute), at(22*time.Hour+30*time.Minute), 5
		r.DecidedAt = r.Until
	})
	f.Before, f.At, h.Schedule = nil, at(48*time.Hour), closed("skip")
}

var dueTimes = map[string]struct {
	codes  string // in order
	change func(f *ledger.JobFacts, h *why.HereOfJob)
}{
	"ran": {"succeeded", func(f *ledger.JobFacts, _ *why.HereOfJob) { decided(f, func(*ledger.DecidedRow) {}) }},
	"ran, and its task is not kept": {"succeeded", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(*ledger.DecidedRow) {})
		f.Task = nil
	}},
	"ran and failed": {"exit_code", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.Result, r.ReasonCode, r.Reason = jobs.StateFailed, reason.ExitCode, "exit code 3"
		})
		f.Task.ExitCode, f.Task.Error = new(3), "oops"
	}},
	"ran late in all ways": {"succeeded decided_late other_decider clock_apart store_slow started_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.DecidedAt, r.StartedAt, r.Overdue, r.ClockOffset, r.Took = at(-2*time.Hour+30*time.Second), at(-2*time.Hour+40*time.Second), true, -90*time.Second, 2*time.Second
		})
		f.Quiet = &ledger.Quiet{Other: &jobs.Trigger{Job: "mail", At: at(-2 * time.Hour), DecidedAt: at(-2*time.Hour + time.Second), Replica: "r3"}}
	}},
	"a fast clock": {"succeeded clock_apart", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.ClockOffset = 3 * time.Second })
	}},
	"lost": {"replica_died", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.Outcome, r.Result, r.ReasonCode, r.Reason = jobs.Lost, jobs.StateLost, reason.ReplicaDied, "replica r2 was declared dead"
		})
		f.Task.State = jobs.StateLost
	}},
	"slot taken": {"slot_taken", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.SlotTaken, "the run of 2026-03-01T05:00:00Z (task t0) has been running on replica r1 since 2026-03-01T05:00:00Z")
		})
		f.Named = &jobs.Task{ID: "t0", State: jobs.StateLost, Replica: "r1", FinishedAt: at(-90 * time.Minute)}
	}},
	"slot taken by one that still runs": {"slot_taken", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.SlotTaken, "the run (task t0) has been running")
		})
		f.Named = &jobs.Task{ID: "t0", State: jobs.StateRunning, Replica: "r1"}
	}},
	"suspended then": {"suspended suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.Suspended, "suspended")
			r.Count, r.Until = 3, at(0)
		})
		f.Suspension = wire.AuditEntry{Remote: "10.0.0.1", At: at(-5 * time.Hour)}
	}},
	"suspended then, by a file": {"suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { skipped(r, jobs.Skipped, reason.Suspended, "suspended") })
	}},
	"suspended then, and now, since its runs failed": {"suspended suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { skipped(r, jobs.Skipped, reason.Suspended, "suspended") })
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Job.SuspendedReason = new(true), true, "suspend_after", "3 runs in a row have failed; suspend_after: 3"
		f.After = &jobs.Trigger{At: at(-time.Hour), Outcome: jobs.Skipped, ReasonCode: reason.Suspended}
	}},
	"suspended then, and again since its runs failed": {"suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { skipped(r, jobs.Skipped, reason.Suspended, "suspended") })
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Job.SuspendedReason = new(true), true, "suspend_after", "3 runs in a row have failed; suspend_after: 3"
		f.After = &jobs.Trigger{At: at(-time.Hour), Outcome: jobs.Ran, Result: jobs.StateFailed}
	}},
	"suspended then, and active now": {"suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { skipped(r, jobs.Skipped, reason.Suspended, "suspended") })
		f.Job.Override, f.Job.SuspendedBy = new(false), "ann"
	}},
	"started late, and others may run": {"succeeded started_late", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.StartedAt = at(-2*time.Hour + 40*time.Second) })
		h.Policy = jobs.Allow
	}},
	"missed over an outage": {"catch_up_latest outage decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Missed, reason.CatchUpLatest, "catch-up policy latest: a later due time stands for it")
			r.DecidedAt = at(-time.Hour)
		})
		f.Quiet = &ledger.Quiet{From: at(-2*time.Hour - time.Minute), Until: at(-time.Hour), Decider: &ledger.Peer{Member: ledger.Member{Replica: "r2"}, JoinedAt: at(-time.Hour - time.Second)}}
	}},
	"an outage with live replicas": {"catch_up_none outage decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Missed, reason.CatchUpNone, "catch-up policy none")
			r.DecidedAt = at(-time.Hour)
		})
		f.Quiet = &ledger.Quiet{Until: at(-time.Hour), Live: []ledger.Peer{{Member: ledger.Member{Replica: "r2"}}, {Member: ledger.Member{Replica: "r3"}, Dead: true}}}
	}},
	"an outage of which nothing is known": {"catch_up_none outage decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Missed, reason.CatchUpNone, "catch-up policy none")
			r.DecidedAt, r.Replica = at(-time.Hour), ""
		})
		f.Quiet, f.Row.Overdue = &ledger.Quiet{Until: at(-time.Hour)}, true
	}},
	"open, and waits for a lock": {"waits_for_lock", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.Outcome, r.Result, r.StartedAt, r.FinishedAt = "", "", time.Time{}, time.Time{}
		})
		f.Task.State = jobs.StatePending
		h.Task = []wire.Cause{{Code: reason.WaitsForLock, Message: "it waits for lock db (held exclusively by x)"}}
	}},
	"open, and runs": {"running", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.Outcome, r.Result, r.FinishedAt = "", "", time.Time{} })
		f.Task.State = jobs.StateRunning
		h.Task = []wire.Cause{{Code: reason.Running, Message: "attempt 1 of 1 runs on r2"}}
	}},
	"open, and its task has just ended": {"ended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.Outcome, r.Result, r.FinishedAt = "", "", time.Time{} })
	}},
	"open, and its task is not known": {"undecided", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.Outcome, r.Result, r.FinishedAt = "", "", time.Time{} })
		f.Task = nil
	}},
	"an old row": {"ended", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { skipped(r, jobs.Skipped, "", "for no reason") })
	}},

	"decided after a pause": {"catch_up_latest was_paused decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Missed, reason.CatchUpLatest, "catch-up policy latest: a later due time stands for it")
			r.DecidedAt = at(-time.Hour)
		})
		f.Quiet = &ledger.Quiet{Until: at(-time.Hour), Live: []ledger.Peer{{Member: ledger.Member{Replica: "r2"}}}}
		f.Quiet.Paused, f.Quiet.Resumed = wire.AuditEntry{Who: "ann", At: at(-3 * time.Hour)}, wire.AuditEntry{Remote: "10.0.0.1", At: at(-time.Hour)}
	}},
	"decided after a pause that ended by itself": {"succeeded was_paused decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.DecidedAt, r.StartedAt = at(-90*time.Minute), at(-90*time.Minute) })
		f.Quiet = &ledger.Quiet{Until: at(-90 * time.Minute), Paused: wire.AuditEntry{At: at(-3 * time.Hour)}}
	}},
	"skipped by hand": {"skip_next", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.SkipNext, "skipped by ann before it was due")
		})
	}},
	"the queue was full": {"queue_full", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.QueueFull, "100 runs wait for the slot, which the run of 2026-03-01T05:00:00Z (task t0) has")
		})
		f.Named = &jobs.Task{ID: "t0", State: jobs.StateRunning, Replica: "r1"}
	}},
	"replaced before it started": {"replaced", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			skipped(r, jobs.Skipped, reason.Replaced, "the run of 2026-03-01T09:00:00Z took its place")
		})
	}},
	"replaced while it ran": {"replaced", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.Result, r.ReasonCode, r.Reason = jobs.StateCancelled, reason.Replaced, "the run of 2026-03-01T09:00:00Z took its place"
		})
		f.Task.State = jobs.StateCancelled
	}},
	"open, and waits for a slot": {"waits_for_slot", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.Outcome, r.Result, r.StartedAt, r.FinishedAt = "", "", time.Time{}, time.Time{}
		})
		f.Task.State = jobs.StatePending
		h.Task = []wire.Cause{{Code: reason.WaitsForSlot, Message: "it waits for a slot of its job, which task t0 has"}}
	}},
	"run by hand at a due time": {"succeeded", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		decided(f, func(*ledger.DecidedRow) {})
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseManual, By: "ann", Outcome: jobs.Ran, Result: jobs.StateSucceeded}}
	}},
	"run by hand at another time, and skipped": {"by_hand", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Before = at(-90*time.Minute), nil
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseManual, By: "ann", Outcome: jobs.Skipped, ReasonCode: reason.SlotTaken, Reason: "task t0 runs"}}
	}},
	"run by hand at another time": {"by_hand", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Before = at(-90*time.Minute), nil
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseManual, By: "ann", Outcome: jobs.Ran, Result: jobs.StateSucceeded, TaskID: "t1", Replica: "r2", StartedAt: at(-90 * time.Minute), FinishedAt: at(-89 * time.Minute)}}
	}},
	"run by hand of a job without a schedule": {"by_hand", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before, h.Schedule = at(-90*time.Minute), nil, nil
		f.Job.Cursor, f.Job.NextAt = time.Time{}, time.Time{}
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseManual, By: "ann", Outcome: jobs.Ran, Result: jobs.StateSucceeded}}
	}},
	"run by a backfill, from before the job was known": {"by_hand", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Before, f.Known, f.First = at(-48*time.Hour), nil, at(-24*time.Hour), at(-48*time.Hour)
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseBackfill, By: "ann", Outcome: jobs.Ran, Result: jobs.StateSucceeded}}
	}},
	"everything is paused": {"paused due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{By: "ann", Reason: "new database", Since: at(-time.Hour)}
	}},
	"everything is paused, until after it": {"paused due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{By: "ann", Reason: "new database", Since: at(-time.Hour), Until: at(2 * time.Hour)}
	}},
	"everything is paused, until before it": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{By: "ann", Since: at(-time.Hour), Until: at(time.Hour)}
	}},
	"held by a pause": {"undecided paused", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Job.NextAt, f.Job.Cursor = now, now, at(-time.Hour)
		f.Next.Pausing = ledger.Pause{By: "ann", Reason: "new database", Since: at(-time.Hour)}
	}},
	"suspended until after it": {"suspended due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Job.SuspendedUntil = new(true), true, "ann", at(2*time.Hour)
		f.Suspension = wire.AuditEntry{Who: "ann", At: at(-time.Hour)}
	}},
	"suspended until before it": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Job.SuspendedUntil = new(true), true, "ann", at(time.Hour)
	}},
	"skipped next": {"skip_next due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.Job.SkipNext, f.Job.SkipBy = 2, "ann" }},
	"skipped next, the last of them": {"skip_next due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Job.SkipNext, f.Job.SkipBy = at(2*time.Hour), 2, "ann"
	}},
	"skipped next, and one after them": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Job.SkipNext, f.Job.SkipBy = at(3*time.Hour), 2, "ann"
	}},
	"skipped next, by a configuration that differs": {"skip_next other_config due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Job.SkipNext, f.Job.SkipBy, h.Differs = at(3*time.Hour), 2, "ann", true
	}},

	"next":              {"due", func(*ledger.JobFacts, *why.HereOfJob) {}},
	"next, in a month":  {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(30*24*time.Hour + 5*time.Hour) }},
	"next, in two days": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(48 * time.Hour) }},
	"next, tomorrow":    {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(47 * time.Hour) }},
	"next, of a process without a replica": {"due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		*h, f.Next = why.HereOfJob{}, ledger.Facts{}
	}},
	"suspended by a user": {"suspended due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Suspension = new(true), true, "ann", wire.AuditEntry{Who: "ann", At: at(-time.Hour)}
	}},
	"suspended since its runs failed": {"suspended due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Job.Override, f.Job.Suspended, f.Job.SuspendedBy, f.Job.SuspendedReason = new(true), true, "suspend_after", "3 runs in a row have failed; suspend_after: 3"
	}},
	"suspended by nobody":     {"suspended due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.Job.Override = new(true) }},
	"suspended in the file":   {"suspended due", func(_ *ledger.JobFacts, h *why.HereOfJob) { h.InFile = true }},
	"resumed, as in the file": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.Job.Override = new(false) }},
	"resumed against the file": {"due resumed", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Job.Override, f.Job.SuspendedBy, h.InFile = new(false), "ann", true
	}},
	"resumed against the file, and overdue now": {"undecided resumed", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Job.NextAt, f.Job.Cursor = now, now, at(-time.Hour)
		f.Job.Override, h.InFile = new(false), true
	}},
	"resumed against the file then": {"succeeded resumed", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(*ledger.DecidedRow) {})
		h.InFile = true
	}},
	"suspended by a file that is not known": {"succeeded", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(*ledger.DecidedRow) {})
		f.Definition, h.InFile = nil, true
	}},
	"another configuration governs": {"other_config due", func(_ *ledger.JobFacts, h *why.HereOfJob) { h.Differs = true }},
	"no live replica":               {"no_live_replica due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.Next.Live = nil }},
	"no replica with the labels":    {"no_replica due", func(_ *ledger.JobFacts, h *why.HereOfJob) { h.RunsOn = map[string]string{"zone": "b"} }},
	"the pool is paused, and is full": {"pool_paused max_running due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pool.Paused, f.Next.Pool.PausedBy, f.Next.Pool.MaxRunning, f.Next.Running = new(true), "bob", 1, tally(1, "a")
	}},
	"the slot is taken": {"slot_taken due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Open, f.OpenN.N = []jobs.Task{{ID: "t9", State: jobs.StateRunning, Replica: "r3", StartedAt: at(-time.Hour)}}, 1
	}},
	"the slot is taken by some that wait": {"slot_taken due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Open, h.Policy, f.OpenN.N = []jobs.Task{{ID: "t8", State: jobs.StatePending, Reason: "waits for lock db"}, {ID: "t9", State: jobs.StatePending}}, jobs.Queue, 2
	}},
	"one of two slots is taken": {"due", func(f *ledger.JobFacts, h *why.HereOfJob) { f.Open, f.OpenN.N, h.Slots = []jobs.Task{{ID: "t8"}}, 1, 2 }},
	"both slots are taken": {"slot_taken due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Open, f.OpenN.N, h.Slots, h.Policy = []jobs.Task{{ID: "t8", State: jobs.StateRunning, Replica: "r1", StartedAt: at(-time.Hour)}, {ID: "t9", State: jobs.StateRunning}}, 2, 2, jobs.Replace
	}},
	"left out by a calendar": {"calendar", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, h.Schedule = at(25*time.Hour+30*time.Minute), closed("skip")
	}},
	"runs when a closure ends": {"due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, h.Schedule = at(39*time.Hour+30*time.Minute), closed("next")
	}},
	"ran when a closure ended": {"succeeded", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) { r.At = at(39*time.Hour + 30*time.Minute) })
		f.About, h.Schedule = at(39*time.Hour+30*time.Minute), closed("next")
		f.Row.DecidedAt, f.Row.StartedAt = at(40*time.Hour+time.Millisecond), at(40*time.Hour+2*time.Millisecond)
	}},
	"left out, and decided when it was due": {"calendar", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.At = at(39*time.Hour + 30*time.Minute)
			skipped(r, jobs.Skipped, reason.Calendar, "calendar holidays excludes it")
		})
		f.About, h.Schedule = at(39*time.Hour+30*time.Minute), closed("next")
		f.Row.DecidedAt = at(39*time.Hour + 30*time.Minute + time.Millisecond)
	}},
	"starts later, by its jitter": {"due", func(_ *ledger.JobFacts, h *why.HereOfJob) { h.Starts = jittered }},
	"waits for its start": {"due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.At, f.About, f.Job.NextAt, f.Job.Cursor, h.Starts = at(5*time.Second), now, now, at(-time.Hour), jittered
	}},
	"started later, by its jitter": {"succeeded", func(f *ledger.JobFacts, h *why.HereOfJob) {
		decided(f, func(r *ledger.DecidedRow) {
			r.DecidedAt, r.StartedAt = at(-2*time.Hour+20*time.Second), at(-2*time.Hour+20*time.Second)
		})
		h.Starts = jittered
	}},
	"others run, and may": {"due", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Open, h.Policy, f.BusyUntil = []jobs.Task{{ID: "t9", State: jobs.StateRunning}}, jobs.Allow, at(2*time.Hour)
	}},
	"a lost attempt may run": {"lost_may_run due", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.BusyUntil, f.Lost = at(2*time.Hour), []ledger.LostTask{{ID: "t7", Replica: "r3", At: at(-time.Minute)}}
	}},
	"a lost attempt that will have ended": {"due", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.BusyUntil = at(time.Minute) }},
	"a lock is held": {"waits_for_lock due", func(_ *ledger.JobFacts, h *why.HereOfJob) {
		h.Locks = []string{"user/db", "user/free"}
		h.Holders = map[string][]wire.Lock{"user/db": {{Mode: "exclusive", Owner: "web/42", Since: at(-time.Minute)}}}
	}},
	"the lock service is away": {"lock_service_down due", func(_ *ledger.JobFacts, h *why.HereOfJob) { h.Locks, h.LockError = []string{"user/db"}, "refused" }},
	"overdue now": {"undecided", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Job.NextAt, f.Job.Cursor = now, now, at(-time.Hour)
	}},
	"overdue now, for the slot": {"undecided slot_taken", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Job.NextAt, f.Job.Cursor, h.Policy = now, now, at(-time.Hour), jobs.Forbid
		f.Open, f.OpenN.N = []jobs.Task{{ID: "t9", State: jobs.StateRunning, Replica: "r3", StartedAt: at(-time.Hour)}}, 1
	}},
	"between the due times of one row": {"not_a_due_time", func(f *ledger.JobFacts, _ *why.HereOfJob) { among(f, -90*time.Minute) }},
	"one of the due times of one row":  {"suspended decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) { among(f, -2*time.Hour) }},
	"the last of one row":              {"suspended", func(f *ledger.JobFacts, _ *why.HereOfJob) { among(f, -time.Hour) }},
	"between the due times of one row, by the definition of then": {"not_a_due_time", func(f *ledger.JobFacts, h *why.HereOfJob) {
		among(f, -2*time.Hour)
		f.Row.At, f.Row.Until = at(-210*time.Minute), at(-30*time.Minute)
		h.Then, _ = jobs.ParseSchedule([]string{"30 * * * *"}, "UTC")
	}},
	"between the due times of one row, by a definition that is not known": {"suspended decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		among(f, -90*time.Minute)
		f.Definition = nil
	}},
	"in a row of due times that the definition does not have": {"suspended decided_late", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		among(f, -90*time.Minute)
		f.Row.At = at(-190 * time.Minute)
	}},
	"between due times that a calendar leaves out": {"not_a_due_time", func(f *ledger.JobFacts, h *why.HereOfJob) {
		leftOut(f, h)
		f.About = at(20 * time.Hour)
	}},
	"one of the due times that a calendar leaves out": {"calendar decided_late", func(f *ledger.JobFacts, h *why.HereOfJob) {
		leftOut(f, h)
		f.About = at(20*time.Hour + 30*time.Minute)
	}},
	"run by hand between the due times of one row": {"by_hand", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		among(f, -90*time.Minute)
		f.ByHand = []jobs.Trigger{{Job: "sync", At: f.About, Seq: 1, Cause: jobs.CauseManual, By: "ann", Outcome: jobs.Ran, Result: jobs.StateSucceeded}}
	}},
	"not a due time":         {"not_a_due_time", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About, f.Before = at(-90*time.Minute), nil }},
	"not a due time to come": {"not_a_due_time", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(90 * time.Minute) }},
	"not one of the schedule of then": {"not_a_due_time", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before = at(-5*time.Hour), nil
		h.Then, _ = jobs.ParseSchedule([]string{"30 * * * *"}, "UTC")
	}},
	"not one of the schedule, and none beside it": {"not_a_due_time", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before = at(-5*time.Hour), nil
		h.Then, _ = jobs.ParseSchedule(nil, "UTC")
	}},
	"without a row": {"no_row", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Before, f.After = at(-5*time.Hour), &jobs.Trigger{At: at(-9 * time.Hour), Until: at(-7 * time.Hour)}, &jobs.Trigger{At: at(-4 * time.Hour)}
	}},
	"before the ledger": {"before_ledger", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(-60 * time.Hour) }},
	"before the job":    {"before_job", func(f *ledger.JobFacts, _ *why.HereOfJob) { f.About = at(-100 * time.Hour) }},
	"before the job, which has no rows": {"before_job", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.First = at(-100*time.Hour), time.Time{}
	}},
	"retired": {"job_removed", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Job.Retired, f.About, f.Job.NextAt, h.Known, h.Schedule = true, time.Time{}, time.Time{}, false, nil
	}},
	"on demand": {"on_demand", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Job.NextAt, h.Schedule = time.Time{}, time.Time{}, nil
	}},
	"on demand, at a time that has passed": {"on_demand", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before, f.Job.Cursor, f.Job.NextAt, h.Schedule = at(-90*time.Minute), nil, time.Time{}, time.Time{}, nil
	}},
	"on demand, at a time before its history": {"no_row", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before, f.Job.Cursor, f.Job.NextAt, h.Schedule, f.Definition = at(-90*time.Minute), nil, time.Time{}, time.Time{}, nil, nil
	}},
	"on demand, at a time when it had a schedule": {"no_row", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before, f.Job.Cursor, f.Job.NextAt, h.Schedule = at(-2*time.Hour), nil, time.Time{}, time.Time{}, nil
		h.Then, _ = jobs.ParseSchedule([]string{"@hourly"}, "UTC")
	}},
	"retired, and due again by what it was": {"job_removed", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.Job.Retired, f.About, f.Job.NextAt, h.Known, h.Schedule = true, time.Time{}, time.Time{}, false, nil
		f.Definition.Until = at(-30 * time.Minute)
		h.Then, _ = jobs.ParseSchedule([]string{"@hourly"}, "UTC")
	}},
	"not a due time, and the next one is after the edit": {"not_a_due_time", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Before, f.Definition.Until = at(-150*time.Minute), nil, at(-2*time.Hour)
		h.Then, _ = jobs.ParseSchedule([]string{"@hourly"}, "UTC")
	}},
	"not a due time, and the edit after it moved none": {"not_a_due_time", func(f *ledger.JobFacts, _ *why.HereOfJob) {
		f.About, f.Before, f.Definition.Until = at(-150*time.Minute), nil, at(-2*time.Hour)
	}},
	"no further due time that is allowed": {"no_further", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.At, f.About = at(17*time.Hour), time.Time{}
		h.Schedule = closed("skip")
	}},
	"no further due time of another definition than that of the replica": {"no_further", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.At, f.About = at(17*time.Hour), time.Time{}
		h.Schedule = closed("skip")
		h.Then, _ = jobs.ParseSchedule([]string{"@at 2026-02-28T08:00:00Z"}, "UTC")
	}},
	"no further due time": {"no_further", func(f *ledger.JobFacts, h *why.HereOfJob) {
		f.About, f.Job.NextAt = time.Time{}, time.Time{}
		h.Schedule, _ = jobs.ParseSchedule([]string{"@at 2026-02-28T08:00:00Z"}, "UTC")
	}},
}

// Each due time has its causes, in their order, and its sentences are those of testdata/due_times.txt.
func TestDueTimes(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(dueTimes)) {
		f, h := hourly()
		dueTimes[name].change(&f, &h)
		y := why.ExplainJob(f, h)
		fmt.Fprintf(&text, "%s\n  %s.\n", name, y.Summary)
		var codes []string
		for _, c := range y.Causes {
			codes = append(codes, string(c.Code))
			message := c.Message
			c.Message = ""
			fields, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			rest := strings.TrimSuffix(strings.TrimPrefix(string(fields), fmt.Sprintf(`{"code":%q,"message":""`, c.Code)), "}")
			fmt.Fprintf(&text, "  %s: %s\n    %s\n", c.Code, message, strings.TrimPrefix(rest, ","))
		}
		if got := strings.Join(codes, " "); got != dueTimes[name].codes {
			t.Errorf("%s: %s, want %s", name, got, dueTimes[name].codes)
		}
		y.Causes, y.Summary, y.Job, y.ReadAt, y.Definition = nil, "", "", time.Time{}, nil
		if y.Trigger != nil {
			y.Trigger.Trigger = jobs.Trigger{}
		}
		fields, err := json.Marshal(y)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "  %s\n", fields)
	}
	const file = "testdata/due_times.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")); diff != "" {
		t.Errorf("other sentences than in %s: run this test with -update, and read the difference (-want +got):\n%s", file, diff)
	}
}
