package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A task is that of package jobs with the attempts in it, a list also where there are none, and can be read again.
func TestTaskInJSON(t *testing.T) {
	code := 3
	for _, h := range []Task{
		{Task: jobs.Task{ID: "7", Pool: "mail", State: jobs.StateFailed, Payload: []byte(`{"a":1}`), PayloadSize: 7}, Attempts: []jobs.Attempt{{Attempt: 1, State: jobs.StateLost, Reason: "replica a died"}, {Attempt: 2, State: jobs.StateFailed, ExitCode: &code}}},
		{Task: jobs.Task{ID: "9", Pool: "mail", State: jobs.StateRunning, ProgressDone: new(0.4), ProgressText: "text"}},
		{Task: jobs.Task{ID: "10", Pool: "mail", State: jobs.StateSucceeded}, Result: json.RawMessage(`{"sent":3}`)},
		{Task: jobs.Task{ID: "11", Pool: "mail", State: jobs.StateSucceeded}, Result: json.RawMessage(`null`)},
		{Task: jobs.Task{ID: "8", Pool: "mail", State: jobs.StatePending}},
	} {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Attempts) == 0 && !strings.Contains(string(text), `"attempts":[]`) {
			t.Errorf("no list of attempts in %s", text)
		}
		var again Task
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if h.Attempts == nil {
			h.Attempts = []jobs.Attempt{}
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Errorf("read again (−written +read):\n%s", diff)
		}
	}
	if text, err := json.Marshal(Task{Result: json.RawMessage("{no JSON")}); err != nil || !strings.HasSuffix(string(text), `,"result":"{no JSON"}`) {
		t.Errorf("a result that is not JSON: %s, %v", text, err)
	}
	unread := Task{Task: jobs.Task{ID: "8"}}
	if err := json.Unmarshal([]byte(`{"attempts":7}`), &unread); err == nil || unread.ID != "8" {
		t.Errorf("%v, %+v", err, unread)
	}
}
