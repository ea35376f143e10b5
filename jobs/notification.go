package jobs

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Notification is the payload of a notification, as JSON. Fields that do not apply are absent.
type Notification struct {
	ID          string      `json:"id"` // of the event: the same each time it is sent
	Event       Event       `json:"event"`
	Text        string      `json:"text"`           // all of it in one line, for people
	Name        string      `json:"name,omitempty"` // of the set
	Job         string      `json:"job,omitempty"`  // absent for a task that a user enqueued
	Pool        string      `json:"pool,omitempty"` // of the task
	ScheduledAt time.Time   `json:"scheduled_at,omitzero"`
	Until       time.Time   `json:"until,omitzero"` // missed: the last of several due times
	Count       int         `json:"count,omitzero"` // missed: how many
	TaskID      string      `json:"task_id,omitempty"`
	Attempt     int         `json:"attempt,omitzero"`  // the last one
	Replica     string      `json:"replica,omitempty"` // that had the task, or decided
	Reason      string      `json:"reason,omitempty"`
	ReasonCode  reason.Code `json:"reason_code,omitempty"`
	Error       string      `json:"error,omitempty"` // at most 4096 bytes
	At          time.Time   `json:"at"`              // when it happened
}

// Sentence is the notification in one line, for Text.
func (n Notification) Sentence() string {
	var b strings.Builder
	if n.Name != "" {
		b.WriteString("[" + n.Name + "] ")
	}
	what := "pool " + n.Pool
	if n.Job != "" {
		what = "job " + n.Job
	}
	due := ""
	if !n.ScheduledAt.IsZero() {
		due = " of " + rfc3339(n.ScheduledAt)
	}
	why := n.Reason
	if line, _, _ := strings.Cut(strings.TrimSpace(n.Error), "\n"); why == "" {
		why = strings.TrimSpace(line)
	}
	switch n.Event {
	case EventMissed:
		b.WriteString(what + " missed ")
		if n.Count > 1 {
			b.WriteString(strconv.Itoa(n.Count) + " due times from " + rfc3339(n.ScheduledAt) + " to " + rfc3339(n.Until))
		} else {
			b.WriteString("its due time" + due)
		}
	case EventRecovered:
		b.WriteString(what + " works again")
		why = ""
	case EventLate:
		b.WriteString(what + " is late")
		if due != "" {
			b.WriteString(", the run" + due)
		}
	case EventPaused:
		b.WriteString(what + " was paused")
	case EventSuspended:
		b.WriteString(what + " was suspended")
	default:
		switch n.Event {
		case EventLost:
			b.WriteString(what + ": a task was lost")
		case EventStarted, EventSucceeded:
			b.WriteString(what + " " + string(n.Event))
		default:
			b.WriteString(what + " failed")
		}
		if due != "" {
			b.WriteString(", the run" + due)
		}
	}
	if n.Job == "" && n.TaskID != "" {
		b.WriteString(" (task " + n.TaskID + ")")
	}
	if why != "" {
		b.WriteString(": " + why)
	}
	return b.String()
}
