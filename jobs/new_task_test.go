package jobs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a task to enqueue is in JSON can be read back, with its payload as it is. What JSON does not have stays.
func TestNewTaskInJSON(t *testing.T) {
	at := time.Date(2026, 11, 28, 10, 0, 0, 123000, time.UTC)
	for _, n := range []NewTask{
		{Pool: "mail", By: "ann"},
		{
			Pool: "mail", By: "ann", Kind: "pdf", Key: "<7>", Payload: json.RawMessage(`{"b":"<&>","a":1e400}`), RunAt: at, ExpiresAt: at.Add(time.Hour), MaxAttempts: 3, Timeout: 90 * time.Second,
			Backoff: 5 * time.Second, Priority: -7, IdempotencyKey: "k", Tags: []string{"x"}, Unique: &Unique{By: []string{"kind"}, For: time.Minute, While: WhileOpen}, Force: true,
		},
		{Pool: "mail", By: "ann", Payload: json.RawMessage("null")},
	} {
		text, err := n.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again := NewTask{Pool: "mail", By: "ann"}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n, again); diff != "" {
			t.Errorf("%s read again (−written +read):\n%s", text, diff)
		}
	}
}

func TestReadNewTask(t *testing.T) {
	var n NewTask
	if err := json.Unmarshal([]byte(`{"payload": {"b":"<", "n":1e400},"timeout":"1d","backoff":null,"tags":null}`), &n); err != nil || n.Timeout != 24*time.Hour || n.Backoff != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if text, err := (NewTask{Pool: "mail", Payload: n.Payload}).Encode(); err != nil || string(text) != `{"b":"<","n":1e400}` {
		t.Errorf("its payload is %s, %v", text, err)
	}
	for text, want := range map[string]string{
		`{"timeout":"90"}`: `duration "90" has no unit; did you mean 90s?`,
		`{"timeout":90}`:   "",
		`{"tags":["b"],"unique":{"for":"2s"},"backof":"5s"}`: `json: unknown field "backof"`,
		`{"pool":"mail"}`: `json: unknown field "pool"`,
		`[]`:              "",
	} {
		was := func() NewTask {
			return NewTask{Kind: "pdf", Timeout: time.Second, Tags: []string{"a"}, Unique: &Unique{For: time.Second}}
		}
		kept := was()
		err := json.Unmarshal([]byte(text), &kept)
		if err == nil || want != "" && err.Error() != want || !cmp.Equal(kept, was()) {
			t.Errorf("%s: %v, %+v", text, err, kept)
		}
	}
}
