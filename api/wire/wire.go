// Package wire has the JSON of the API as Go types: for package api, package client, the program's -o json and the
// page. Tasks, triggers and attempts are those of package jobs. No JSON are what methods of Go take in place of a request: [Page], the filters
// ([TaskFilter] with [TaskDetails], [TriggerFilter], [DeadLetterFilter]) and the calls of workers ([WorkerCaller] and others), and [Vitals],
// which is for metrics within the process.
//
// Times are UTC. Fields that do not apply are absent.
package wire

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// List is a page of a list.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // cursor of the page that follows; absent on the last one
}

// Problem is the reason of a refusal.
type Problem struct {
	Code    string `json:"code"`            // for programs: "not_found", "conflict", "malformed", "invalid", …
	Message string `json:"message"`         // for people
	Field   string `json:"field,omitempty"` // the key or parameter that is wrong
	Force   string `json:"force,omitempty"` // of a conflict with a lost attempt: what forces a run over it, and over no other
}

// Refusal is the body of every error.
type Refusal struct {
	Error Problem `json:"error"`
}

// TriggerFilter selects ledger rows, latest first. Zero fields select everything.
type TriggerFilter struct {
	Job     string
	Outcome jobs.Outcome
	Result  jobs.State
	Since   time.Time
	Page
}

// TaskFilter selects tasks, latest id first. Zero fields select everything.
type TaskFilter struct {
	Pool        string
	Job         string
	State       jobs.State
	Fingerprint string // of tasks of Pool, which it needs; see jobs.Fingerprint
	TaskDetails
	Page
}

// TaskDetails select among the tasks of a filter. No index has them: tasks are looked at one by one, so a page may have fewer tasks than its
// limit, or none, and a next one all the same.
type TaskDetails struct {
	Kind  string
	Key   string
	Tag   string    // one of the task's
	Since time.Time // this, and Until, are about the time at which a task ended; of one that has not, at which it was created
	Until time.Time // before it
}

// Any reports whether they select.
func (d TaskDetails) Any() bool { return d != (TaskDetails{}) }

// Match reports whether a task is selected.
func (d TaskDetails) Match(t jobs.Task) bool {
	at := t.FinishedAt
	if !t.State.Ended() {
		at = t.CreatedAt
	}
	return (d.Kind == "" || d.Kind == t.Kind) && (d.Key == "" || d.Key == t.Key) && (d.Tag == "" || slices.Contains(t.Tags, d.Tag)) &&
		!at.Before(d.Since) && (d.Until.IsZero() || at.Before(d.Until))
}

// Page is one page of a list: at most Limit rows (1 … 500; 0 = 50) after the row that Cursor
// names. Cursors are opaque; a broken one is jobs.ErrInvalid.
type Page struct {
	Limit  int
	Cursor string
}
