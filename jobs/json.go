package jobs

import "encoding/json"

// History is a task with its earlier attempts, oldest first; in JSON it is one object, the task's
// with "attempts" added.
type History struct {
	Task     Task
	Attempts []Attempt
}

// taskFields is Task without its methods.
type taskFields Task

type historyFields struct {
	taskFields
	Attempts []Attempt `json:"attempts"`
}

// MarshalJSON never fails for a task with times of this era. A payload that is not JSON (a job's
// payload may be any bytes) is shown as a string.
func (t Task) MarshalJSON() ([]byte, error) { return json.Marshal(t.fields()) }

func (t Task) fields() taskFields {
	t.PayloadSize = max(t.PayloadSize, len(t.Payload))
	if len(t.Payload) > 0 && !json.Valid(t.Payload) {
		t.Payload, _ = json.Marshal(string(t.Payload))
	}
	return taskFields(t)
}

func (h History) MarshalJSON() ([]byte, error) {
	if h.Attempts == nil {
		h.Attempts = []Attempt{}
	}
	return json.Marshal(historyFields{h.Task.fields(), h.Attempts})
}

func (h *History) UnmarshalJSON(b []byte) error {
	var f historyFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*h = History{Task(f.taskFields), f.Attempts}
	return nil
}
