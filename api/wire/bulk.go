package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// BulkAction is what is done with all tasks of a filter.
type BulkAction string

const (
	BulkRetry  BulkAction = "retry"  // enqueues tasks that have ended again, each as a new task, once
	BulkCancel BulkAction = "cancel" // ends pending tasks as cancelled, and asks running ones to stop
	BulkPurge  BulkAction = "purge"  // deletes tasks that have ended, as the retention does
)

// TaskMatch selects tasks to change. It names some by their ids, a pool, or a job; what else is given must be true of a task, too.
type TaskMatch struct {
	IDs         []string   `json:"ids,omitzero"` // 1 to 500, which are one batch; nil: not by ids
	Pool        string     `json:"pool,omitempty"`
	Job         string     `json:"job,omitempty"`
	State       jobs.State `json:"state,omitempty"` // absent: for retry failed and lost, for cancel pending and running, for purge all that have ended
	Kind        string     `json:"kind,omitempty"`
	Key         string     `json:"key,omitempty"`
	Tag         string     `json:"tag,omitempty"`         // one of the task's
	Fingerprint string     `json:"fingerprint,omitempty"` // with pool; see jobs.Fingerprint
	Since       time.Time  `json:"since,omitzero"`        // this, and Until, are about the time at which a task ended; of one that has not, at which it was created
	Until       time.Time  `json:"until,omitzero"`        // before it
}

// Bulk is one batch of a change of many tasks.
type Bulk struct {
	TaskMatch
	Limit  int    `json:"limit,omitempty"`   // matched tasks of the batch, 1 … 500; 0: 50, or all IDs
	Cursor string `json:"cursor,omitempty"`  // Next of the batch before
	DryRun bool   `json:"dry_run,omitempty"` // nothing is changed, and the answer is what would have been done
	Force  bool   `json:"force,omitempty"`   // retry also what no live replica can run
	By     string `json:"-"`                 // the caller, for people
}

// BulkResult is what became of a batch. Matched is Done and all that was skipped.
type BulkResult struct {
	Matched int           `json:"matched"`
	Done    int           `json:"done"`
	Skipped []BulkSkipped `json:"skipped,omitempty"`
	Tasks   []BulkTask    `json:"tasks"`          // that were changed, the latest first; with dry_run the first 10 that would be
	Next    string        `json:"next,omitempty"` // cursor of the batch that follows, which may match nothing; absent on the last one
}

// BulkSkipped are tasks that matched and were not changed.
type BulkSkipped struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	TaskID string `json:"task_id"` // one of them
}

// BulkTask is a task that was changed.
type BulkTask struct {
	ID    string     `json:"id"`
	Kind  string     `json:"kind,omitempty"`
	State jobs.State `json:"state"` // that it had
	As    string     `json:"retried_as,omitempty"`
	Error string     `json:"error,omitempty"` // the first 200 bytes; with dry_run
}

// Skip counts a task that is not changed.
func (r *BulkResult) Skip(id, reason string) {
	i := slices.IndexFunc(r.Skipped, func(s BulkSkipped) bool { return s.Reason == reason })
	if i < 0 {
		i = len(r.Skipped)
		r.Skipped = append(r.Skipped, BulkSkipped{Reason: reason, TaskID: id})
	}
	r.Skipped[i].Count++
}

// Add adds what another part of the batch did.
func (r *BulkResult) Add(part BulkResult) {
	r.Matched, r.Done, r.Tasks = r.Matched+part.Matched, r.Done+part.Done, append(r.Tasks, part.Tasks...)
	for _, k := range part.Skipped {
		if i := slices.IndexFunc(r.Skipped, func(s BulkSkipped) bool { return s.Reason == k.Reason }); i >= 0 {
			r.Skipped[i].Count += k.Count
			continue
		}
		r.Skipped = append(r.Skipped, k)
	}
}

// BulkReason is why a task is not changed that matches, by what can be said of the task alone; "" if nothing.
func BulkReason(action BulkAction, t jobs.Task) string {
	switch {
	case action != BulkRetry:
	case t.RetriedAs != "":
		return "was retried before"
	case t.Job != "":
		return "is of a job, whose row decides whether it may run; retry it alone, or run the job"
	}
	return ""
}

// States are the states of the tasks that an action is about.
func (a BulkAction) States() []jobs.State {
	if a == BulkCancel {
		return []jobs.State{jobs.StatePending, jobs.StateRunning}
	}
	return []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled}
}

// Wanted are the states that the filter lets through.
func (m TaskMatch) Wanted(a BulkAction) []jobs.State {
	switch {
	case m.State != "":
		return []jobs.State{m.State}
	case a == BulkRetry:
		return []jobs.State{jobs.StateFailed, jobs.StateLost}
	}
	return a.States()
}

// Matches reports whether the filter is about the task.
func (m TaskMatch) Matches(a BulkAction, t jobs.Task) bool {
	details := TaskDetails{Kind: m.Kind, Key: m.Key, Tag: m.Tag, Since: m.Since, Until: m.Until}
	is := func(want, has string) bool { return want == "" || want == has }
	return is(m.Pool, t.Pool) && is(m.Job, t.Job) && is(m.Fingerprint, t.Fingerprint) && slices.Contains(m.Wanted(a), t.State) &&
		(m.IDs == nil || slices.Contains(m.IDs, t.ID)) && details.Match(t)
}

// Check returns the first thing that is wrong, as a [*jobs.FieldError]: nothing that can be matched, or all tasks.
func (b Bulk) Check(action BulkAction) error {
	wrong := func(field, format string, args ...any) error {
		return &jobs.FieldError{Path: field, Problem: fmt.Sprintf(format, args...)}
	}
	_, err := paging.Limit(b.Limit)
	switch {
	case b.IDs != nil && len(b.IDs) == 0:
		return wrong("ids", "names none; leave it out for all tasks of a pool or a job")
	case b.IDs == nil && b.Pool == "" && b.Job == "":
		return wrong("pool", "is missing; name a pool, a job, or ids, so that not all tasks are meant")
	case len(b.IDs) > paging.MaxLimit:
		return wrong("ids", "has %d; at most %d in one batch", len(b.IDs), paging.MaxLimit)
	case len(b.IDs) > 0 && b.Cursor != "":
		return wrong("cursor", "is of a list; tasks that are named by their ids are one batch")
	case len(b.IDs) > 0 && b.Limit != 0:
		return wrong("limit", "is of a list; tasks that are named by their ids are one batch")
	case b.State != "" && !slices.Contains(action.States(), b.State):
		states := make([]string, len(action.States()))
		for i, state := range action.States() {
			states[i] = string(state)
		}
		last := len(states) - 1
		return wrong("state", "%s is about tasks that are %s or %s, not %.32q", action, strings.Join(states[:last], ", "), states[last], b.State)
	case b.Fingerprint != "" && !naming.Fingerprint.MatchString(b.Fingerprint):
		return wrong("fingerprint", "%.64q is not 16 hexadecimal digits, as dead letters have them", b.Fingerprint)
	case b.Fingerprint != "" && b.Pool == "":
		return wrong("fingerprint", "is of tasks of one pool; name the pool, too")
	case b.Fingerprint != "" && action == BulkCancel:
		return wrong("fingerprint", "is of tasks that have ended, which cannot be cancelled")
	case b.Force && action != BulkRetry:
		return wrong("force", "is for retry")
	case !b.Until.IsZero() && !b.Since.Before(b.Until):
		return wrong("until", "must be later than since")
	case err != nil:
		return wrong("limit", "must be a whole number from 1 to %d", paging.MaxLimit)
	}
	return nil
}
