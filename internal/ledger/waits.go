package ledger

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Waits are the tasks that wait for locks. They are pending, have the slots of their jobs, and no room in their pools. Those that
// wait for one key are in the order of claims: priority, due time and id. For each at most one session waits at the lock
// service: it has queued the task.
type Waits interface {
	// FirstWaits returns the tasks that are first for each of their keys, in the order of claims, and when the first limit of a wait
	// is over; zero: no wait has one. Tasks of paused pools, and those whose work is in skip, do not count: no other task waits for
	// them. At most limit keys are looked at. session is the caller's, whose own tasks do not count as queued.
	FirstWaits(ctx context.Context, session string, skip []string, limit int) (first []Wait, ends time.Time, err error)
	// QueueWaits makes the session the one that waits for these tasks at the lock service, and returns them: without those that no
	// longer wait, and those that another live session has queued.
	QueueWaits(ctx context.Context, session string, tasks []string) ([]jobs.Task, error)
	// LeaveWaits ends that for tasks that the session has queued. They go on waiting, and any session may queue them.
	LeaveWaits(ctx context.Context, session string, tasks []string) error
	// ExplainWaits sets the reasons of tasks, by id: of those that the session has queued, and of those that no live session has.
	ExplainWaits(ctx context.Context, session string, reasons map[string]string) error
	// EndWaits ends the tasks whose limit is over as cancelled, at most limit of them; now is as in Decide. Their triggers
	// are skipped, unless an attempt was started before.
	EndWaits(ctx context.Context, now Judge, limit int) ([]jobs.Task, error)
}

// Wait is a task that waits for locks.
type Wait struct {
	TaskID string
	Pool   string
	Work   string
	Queued bool // another live session has queued it
}

// WorkOf is what runs a task: a job, or the handler of a kind in a pool.
func WorkOf(t jobs.Task) string {
	if t.Job != "" {
		return "job/" + t.Job
	}
	return "kind/" + t.Pool + "/" + t.Kind
}

// Task has what WorkOf was made of.
func (w Wait) Task() jobs.Task {
	t := jobs.Task{ID: w.TaskID, Pool: w.Pool}
	if name, is := strings.CutPrefix(w.Work, "job/"); is {
		t.Job = name
	} else {
		t.Kind = strings.TrimPrefix(w.Work, "kind/"+w.Pool+"/")
	}
	return t
}

// LimitOfWait is when a wait that begins now ends by its limit; zero: it has none.
func (l Locking) LimitOfWait(now time.Time) time.Time {
	if l.Wait <= 0 {
		return time.Time{}
	}
	return now.Add(l.Wait)
}

// EndOfWait is the reason of a task that has waited as long as it may. reason is what it was until then; first is the reason of
// the task that is first for the key, if that is another one: it names the holder, where reason only says that others are before.
func EndOfWait(reason, first string) string {
	why := "lock_wait is over; it " + reason
	if first != "" && strings.HasSuffix(reason, behind) {
		why += "; the first of them " + first
	}
	return why
}

// WaitsFor is the reason of a task that waits for a lock.
func WaitsFor(lock, why string) string { return "waits for lock " + lock + ", " + why }

// LocksAway is the reason of a task that is first for its locks, and that nobody queues while the lock service is away.
const LocksAway = "waits for its locks, the lock service does not answer"

// behind is how the reason of a task ends that waits behind others.
const behind = "behind tasks that wait for it"

// Behind is the Locking of a task that waits since others wait for one of its keys.
func (l Locking) Behind() Locking {
	names := make([]string, len(l.Keys))
	for i, key := range l.Keys {
		names[i] = strings.TrimPrefix(key, syskeys.User)
	}
	l.State, l.Reason = LocksBusy, WaitsFor(strings.Join(names, ", "), behind)
	return l
}
