package ledger

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Verdict is what the owner records of one attempt.
type Verdict string

const (
	Ended    Verdict = "ended"     // the task reaches Result.State
	Again    Verdict = "again"     // the attempt failed, the next one is due in RetryIn
	HandBack Verdict = "hand_back" // claimed and never started: pending again, as if never claimed
	Snoozed  Verdict = "snoozed"   // put off by its handler: pending again, as if never claimed, and due in RetryIn
	Died     Verdict = "died"      // the owner stopped it without an end; on_lost decides
)

// Undone reports whether the attempt does not count: the next one has its number.
func (v Verdict) Undone() bool { return v == HandBack || v == Snoozed }

// Result is the end of one attempt, written under its token. A store cuts texts that are too long, and
// refuses none for that.
type Result struct {
	TaskID   string
	Token    int64
	Verdict  Verdict
	State    jobs.State    // of the attempt: succeeded, failed, cancelled or lost; pending if it was snoozed
	RetryIn  time.Duration // with Again and Snoozed: the next attempt is due this long after Now
	Now      time.Time     // the database's time as the owner of the task reckons it; zero: as the database says
	Ended    time.Time     // when the attempt ended, by this process's monotonic clock; zero: when it is recorded. See EndedAt
	Reason   string        // the first 512 bytes are kept
	Code     reason.Code   // of Reason
	Error    string        // the first limits.Error bytes are kept
	ExitCode *int
	Output   []byte     // the first limits.Output bytes are kept
	Spans    clip.Spans // which bytes of what the attempt wrote these are
	Chunked  bool       // chunks of it were sent. They go; what has no Output has what arrived as its output
	Session  string     // of the attempt, if it is not that of the call; "": it is
	Value    []byte     // what the attempt made the result of its task, as JSON. It is kept if the task ends with this attempt, and it is not above jobs.MaxResult

	// PauseOn is what pauses the pool of the task; zero: nothing does.
	PauseOn PauseOn

	// SuspendAfter: the job of the task is suspended when its runs fail in a row, by the definition of the owner. After how many its row says.
	SuspendAfter bool

	// Tells: if the task ends as succeeded by this, an EventSucceeded is written, as the definition of the owner has it.
	Tells bool

	// Task is the task as its claim gave it to the owner, so that a store need not read it to end it. nil: it is not known any
	// more. One with another id or token is not used.
	Task *jobs.Task
	// KindLimited, with Task: its pool limits its kind. Those that wait for the kind are told of the end then, for a statement more for all
	// results; else they find out within 30 s. A store adds the kinds that an override limits.
	KindLimited bool
}

// AnyKind reports whether the owner knows that no task waits for the kind of this one.
func (r Result) AnyKind() bool { return r.Task != nil && !r.KindLimited }

// Due is when the next attempt is, for a database that says it is now.
func (r Result) Due(now time.Time) time.Time {
	if !r.Now.IsZero() {
		now = r.Now
	}
	return now.Add(max(r.RetryIn, 0))
}

// EndedAt is when an attempt that started then ended, for a database that says it is now: so long ago as this process has measured, not before
// its start, and to the microsecond. A result that waited for the store has the end of its attempt, and not of the wait.
func (r Result) EndedAt(started, now time.Time) time.Time {
	if r.Ended.IsZero() {
		return now
	}
	ended := now.Add(-max(time.Since(r.Ended), 0)).Truncate(time.Microsecond)
	if ended.Before(started) {
		return started
	}
	return ended
}

// Kept is r with no more of its texts than a store keeps. What is left of a text is valid UTF-8, and does
// not hold on to the rest in memory.
func (r Result) Kept() Result {
	r.Reason, r.Error = head(r.Reason, maxReason), head(r.Error, limits.Error)
	if len(r.Output) > limits.Output {
		r.Output = bytes.Clone(r.Output[:limits.Output])
	}
	if len(r.Value) > jobs.MaxResult || len(r.Value) > 0 && !json.Valid(r.Value) { // no part of it would be JSON
		r.Value = nil
	}
	return r
}

const maxReason = 512

func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:n], ""))
}

// Finish is what became of a Result.
type Finish string

const (
	Recorded Finish = "recorded"
	Late     Finish = "late"   // the task had been declared lost; the result replaced that, once
	Fenced   Finish = "fenced" // the token is stale: the task has another owner or none; nothing was written
)

// Finished is what a Result has made of its task.
type Finished struct {
	TaskID string
	Finish Finish
	State  jobs.State // of the task, then
	// Task is the row without its payload; nil: Result.Task was taken to be right, and the task ended At, by the database's time. See Row.
	Task *jobs.Task
	At   time.Time

	// Before: the call wrote nothing, since an earlier one, or one of another process, had recorded the same. Each end is written by one call,
	// which counts it. Where the answer to the COMMIT of this call was lost, and the end is there, this call is taken to have written it.
	Before bool
}

// Row is the row after r, without its payload.
func (f Finished) Row(r Result) jobs.Task {
	if f.Task != nil {
		return *f.Task
	}
	t, r := *r.Task, r.Kept()
	t.Payload, t.PayloadSize = nil, 0
	t.State, t.Reason, t.ReasonCode, t.Error, t.ExitCode, t.FinishedAt = f.State, r.Reason, r.Code, r.Error, r.ExitCode, f.At
	t.Fingerprint, t.RetriedAs = jobs.Fingerprint(t), ""
	return t
}
