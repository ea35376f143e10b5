package jobs

import (
	"encoding/json"
	"strings"
	"testing"
)

// A payload is shown as it is, or as a string if it is no JSON, with its size; lists that leave it out keep the size.
func TestPayloadsInJSON(t *testing.T) {
	for _, c := range []struct {
		task Task
		want string
	}{
		{Task{}, `"payload_size":0`},
		{Task{Payload: []byte(`{"a": 1}`)}, `"payload":{"a":1},"payload_size":8`},
		{Task{Payload: []byte("no JSON\x01\"")}, `"payload":"no JSON\u0001\"","payload_size":9`},
		{Task{PayloadSize: 2000}, `"payload_size":2000`},
	} {
		text, err := json.Marshal(c.task)
		if err != nil || !strings.Contains(string(text), c.want) || strings.Contains(string(text), `"payload":`) != strings.Contains(c.want, `"payload":`) {
			t.Errorf("%q: %s, %v, want %s in it", c.task.Payload, text, err, c.want)
		}
	}
}

// What was enqueued is its task, and says so if its key was used before; it can be read again.
func TestEnqueuedInJSON(t *testing.T) {
	for _, e := range []Enqueued{
		{Task: Task{ID: "7", Pool: "mail", State: StatePending, Payload: []byte("no JSON")}, Existed: true},
		{Task: Task{ID: "8", Pool: "mail", State: StatePending}},
	} {
		text, err := json.Marshal(e)
		if err != nil || strings.Contains(string(text), `"existed":true`) != e.Existed || strings.Contains(string(text), `"existed":false`) {
			t.Fatalf("%s, %v", text, err)
		}
		task, _ := json.Marshal(e.Task)
		if !strings.HasPrefix(string(text), strings.TrimSuffix(string(task), "}")) {
			t.Errorf("%s is not the task's %s", text, task)
		}
		var again Enqueued
		if err := json.Unmarshal(text, &again); err != nil || again.ID != e.ID || again.Existed != e.Existed {
			t.Errorf("read again: %+v, %v", again, err)
		}
	}
}

func TestEnded(t *testing.T) {
	for state, want := range map[State]bool{
		StatePending: false, StateRunning: false, StateSucceeded: true, StateFailed: true, StateLost: true, StateCancelled: true,
	} {
		if state.Ended() != want {
			t.Errorf("%s has ended: %v", state, !want)
		}
	}
}
