package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// A history is its task with the attempts in it, a list also where there are none, and can be read again.
func TestHistoryInJSON(t *testing.T) {
	code := 3
	for _, h := range []History{
		{Task: Task{ID: "7", Pool: "mail", State: StateFailed, Payload: []byte(`{"a":1}`), PayloadSize: 7}, Attempts: []Attempt{{Attempt: 1, State: StateLost, Reason: "replica a died"}, {Attempt: 2, State: StateFailed, ExitCode: &code}}},
		{Task: Task{ID: "8", Pool: "mail", State: StatePending}},
	} {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Attempts) == 0 && !strings.Contains(string(text), `"attempts":[]`) {
			t.Errorf("no list of attempts in %s", text)
		}
		var again History
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if h.Attempts == nil {
			h.Attempts = []Attempt{}
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Errorf("read again (−written +read):\n%s", diff)
		}
	}
	unread := History{Task: Task{ID: "8"}}
	if err := json.Unmarshal([]byte(`{"attempts":7}`), &unread); err == nil || unread.Task.ID != "8" {
		t.Errorf("%v, %+v", err, unread)
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
