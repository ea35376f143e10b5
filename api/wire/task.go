package wire

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Task is a task with its earlier attempts, oldest first, and its result. In JSON it is the task's object with "attempts" added, and "result"
// if there is one.
type Task struct {
	jobs.Task
	Attempts []jobs.Attempt  `json:"attempts"`
	Result   json.RawMessage `json:"result,omitempty"` // of a task that has ended: what its last attempt made it, see jobs.Task.SetResult
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
	return append(text, '}'), nil
}

// Run is a manual run: its row in the ledger, and its task.
type Run struct {
	Trigger jobs.Trigger `json:"trigger"`
	Task    jobs.Task    `json:"task"`
}
