package jobs

import "encoding/json"

// taskFields is Task without its methods.
type taskFields Task

// MarshalJSON never fails for a task with times of this era. A payload that is not JSON, as only a
// hand that writes rows leaves one, is shown as a string.
func (t Task) MarshalJSON() ([]byte, error) { return json.Marshal(t.fields()) }

func (t Task) fields() taskFields {
	t.PayloadSize = max(t.PayloadSize, len(t.Payload))
	if len(t.Payload) > 0 && !json.Valid(t.Payload) {
		t.Payload, _ = json.Marshal(string(t.Payload))
	}
	return taskFields(t)
}

// Enqueued is the outcome of enqueueing one task. In JSON it is the task's object, with "existed" if that is true.
type Enqueued struct {
	Task
	Existed bool `json:"existed,omitempty"` // its idempotency key was used before, or its Unique met one that exists; Task is that one
}

func (e Enqueued) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		taskFields
		Existed bool `json:"existed,omitempty"`
	}{e.fields(), e.Existed})
}
