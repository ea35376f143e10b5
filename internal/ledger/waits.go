package ledger

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Waits are the tasks that wait for locks. They are pending, have the slots of their jobs, and no room in their pools. Those that
// wait for one key are in the order of claims: priority, due time and id. For each at most one session waits at the lock
// service: it has queued the task.
type Waits interface {
	// FirstWaits returns the waits that are first for each of their keys, and when the first of all waits ends by its limit; zero:
	// none has one. What is in paused pools, or is the work of skip, does not count: it holds up nobody. At most limit keys are looked at.
	FirstWaits(ctx context.Context, session string, skip []string, limit int) (first []Wait, ends time.Time, err error)
	// QueueWaits makes the session the one that waits for these tasks at the lock service, and returns those of them that wait and that no
	// other live session has queued.
	QueueWaits(ctx context.Context, session string, tasks []string) ([]jobs.Task, error)
	// LeaveWaits ends that. The tasks go on waiting, and any session may queue them.
	LeaveWaits(ctx context.Context, session string, tasks []string) error
	// ExplainWaits sets the reasons of tasks that the session has queued, by id.
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
	Mine   bool // the session has queued it
	Queued bool // another live session has
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

// EndOfWait is the reason of a task that has waited as long as it may, for what its reason says. first is that of the task which
// is first for the key, if that is another one: it names the holder where the task only says that others are before it.
func EndOfWait(reason, first string) string {
	why := "lock_wait is over; it " + reason
	if first != "" && strings.HasSuffix(reason, behind) {
		why += "; the first of them " + first
	}
	return why
}

// behind is how the reason of a task ends that waits behind others.
const behind = ", behind tasks that wait for it"

// Behind is l of a task that waits behind others.
func (l Locking) Behind() Locking {
	names := make([]string, len(l.Keys))
	for i, key := range l.Keys {
		names[i] = strings.TrimPrefix(key, "user/")
	}
	l.State, l.Reason = LocksBusy, "waits for lock "+strings.Join(names, ", ")+behind
	return l
}
