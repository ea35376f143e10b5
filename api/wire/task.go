package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Task is a task with its earlier attempts, oldest first, and its result. In JSON it is the task's object with "attempts" added, and "result"
// if there is one.
type Task struct {
	jobs.Task
	Attempts   []jobs.Attempt  `json:"attempts"`
	Result     json.RawMessage `json:"result,omitempty"`     // of a task that has ended: what its last attempt made it, see jobs.Task.SetResult
	Quarantine []LostAttempt   `json:"quarantine,omitempty"` // of a task that is quarantined
}

// LostAttempt is an attempt that ended with its replica.
type LostAttempt struct {
	Attempt   int       `json:"attempt"`
	Replica   string    `json:"replica"`
	StartedAt time.Time `json:"started_at"`
	LostAt    time.Time `json:"lost_at"` // when the replica was declared dead, and the attempt recorded as lost
}

// NewTask is a task with its earlier attempts. Of one that is quarantined, the attempts that ended with their replicas are the evidence.
func NewTask(t jobs.Task, attempts []jobs.Attempt) Task {
	all := Task{Task: t, Attempts: attempts}
	if t.ReasonCode != reason.Quarantined {
		return all
	}
	for _, a := range attempts {
		if a.ReasonCode == reason.ReplicaDied {
			all.Quarantine = append(all.Quarantine, LostAttempt{a.Attempt, a.Replica, a.StartedAt, a.FinishedAt})
		}
	}
	all.Quarantine = append(all.Quarantine, LostAttempt{t.Attempt, t.Replica, t.StartedAt, t.FinishedAt})
	return all
}

// MarshalJSON writes no attempts as an empty list. A result that is not JSON, as only a hand that writes rows leaves one, is shown as a string.
func (t Task) MarshalJSON() ([]byte, error) {
	task, err := json.Marshal(t.Task)
	if err != nil {
		return nil, err
	}
	attempts, err := json.Marshal(append([]jobs.Attempt{}, t.Attempts...))
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(task[:len(task)-1], `,"attempts":%s`, attempts)
	if len(t.Result) > 0 {
		result, err := json.Marshal(t.Result)
		if err != nil {
			result, _ = json.Marshal(string(t.Result)) // strings always encode
		}
		text = fmt.Appendf(text, `,"result":%s`, result)
	}
	if len(t.Quarantine) > 0 {
		lost, err := json.Marshal(t.Quarantine)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, `,"quarantine":%s`, lost)
	}
	return append(text, '}'), nil
}

// Run is a manual run: its row in the ledger, and its task.
type Run struct {
	Trigger jobs.Trigger `json:"trigger"`
	Task    jobs.Task    `json:"task"`
}
