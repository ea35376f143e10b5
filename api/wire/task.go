package wire

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Task is a task with its earlier attempts, oldest first. In JSON it is the task's object with "attempts" added.
type Task struct {
	jobs.Task
	Attempts []jobs.Attempt `json:"attempts"`
}

// MarshalJSON writes no attempts as an empty list.
func (t Task) MarshalJSON() ([]byte, error) {
	task, err := json.Marshal(t.Task)
	if err != nil {
		return nil, err
	}
	attempts, err := json.Marshal(append([]jobs.Attempt{}, t.Attempts...))
	return fmt.Appendf(task[:len(task)-1], `,"attempts":%s}`, attempts), err
}

// Run is a manual run: its row in the ledger, and its task.
type Run struct {
	Trigger jobs.Trigger `json:"trigger"`
	Task    jobs.Task    `json:"task"`
}
