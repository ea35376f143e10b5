package jobs

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

type greeting struct {
	Kind string `json:"kind"`
}

// The payload of a job is encoded as that of a task, and its text decides the hash. The hashes are those that databases
// have: they never change for the same text.
func TestPayloadOfAJob(t *testing.T) {
	job := Job{Schedule: "@hourly", Pool: "mail"}
	for _, c := range []struct {
		payload    any
		text, hash string
	}{
		{nil, "", "5d100898fa839bc3350a160a3784a8d9"},
		{json.RawMessage(nil), "", "5d100898fa839bc3350a160a3784a8d9"},
		{json.RawMessage(`{"kind":"hourly"}`), `{"kind":"hourly"}`, "c601354b7443e5a96c7ffa3987f5aa12"},
		{json.RawMessage(` {"kind": "hourly"} `), `{"kind":"hourly"}`, "c601354b7443e5a96c7ffa3987f5aa12"},
		{greeting{"hourly"}, `{"kind":"hourly"}`, "c601354b7443e5a96c7ffa3987f5aa12"},
		{map[string]string{"kind": "hourly"}, `{"kind":"hourly"}`, "c601354b7443e5a96c7ffa3987f5aa12"},
		{json.RawMessage(`"<&>"`), `"<&>"`, "317c883b34cc375224f600cd1d38e326"},
		{[]byte("{}"), `"e30="`, ""},
	} {
		job.Payload = c.payload
		text, err := job.EncodePayload()
		if string(text) != c.text || err != nil {
			t.Errorf("%#v: encoded as %s, %v, want %s", c.payload, text, err, c.text)
		}
		if hash := job.Hash(); c.hash != "" && hash != c.hash {
			t.Errorf("%#v: hash %s, want %s", c.payload, hash, c.hash)
		}
		asTask, err := NewTask{Pool: "mail", Payload: c.payload}.Encode()
		if string(asTask) != c.text || err != nil {
			t.Errorf("%#v: encoded for a task as %s, %v, want %s", c.payload, asTask, err, c.text)
		}
	}
}

// A key that stands twice is refused, whoever gives the payload: the key of a lock would be of the last value, and the handler may read the first.
func TestPayloadsWithAKeyThatStandsTwice(t *testing.T) {
	for payload, want := range map[string]string{
		`{"n":999,"n":1}`:                        `payload/n: the key stands twice in its object; remove one`,
		`{"n":999,"\u006e":1}`:                   `payload/n: the key stands twice in its object; remove one`,
		`{"n":1,"a":[0,{"b/":{"x":1},"b/":[]}]}`: `payload/a/1/b~1: the key stands twice in its object; remove one`,
		`[[{"n":1},{"n":1}],{"a":{"n":1,"N":2},"n":["n","n",{"n":1}]},"n"]`: "",
	} {
		raw := json.RawMessage(payload)
		_, task := NewTask{Pool: "mail", Payload: raw}.Encode()
		_, run := NewRun{Payload: raw}.Encode()
		_, job := Job{Payload: raw}.EncodePayload()
		for what, err := range map[string]error{"task": task, "run": run, "job": job} {
			if got := text(err); got != want {
				t.Errorf("of a %s %s: %q, want %q", what, payload, got, want)
			}
		}
	}
}

// A payload that cannot be encoded is reported with its job.
func TestPayloadsOfJobsThatCannotBeEncoded(t *testing.T) {
	for problem, payload := range map[string]any{
		"cannot be written as JSON: json: unsupported type: func()":                      func() {},
		"cannot be written as JSON: json: unsupported value: +Inf":                       math.Inf(1),
		"262146 bytes, at most 262144 are allowed; store it elsewhere and pass its name": strings.Repeat("x", MaxPayload),
		"not valid JSON": json.RawMessage("{"),
		"nested deeper than 100; make it flatter": json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101)),
	} {
		job := Job{Handler: says("h"), Payload: payload}
		err := Set{Jobs: map[string]Job{"digest": job}}.Validate()
		if got, want := text(err), "jobs.digest.payload: "+problem; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if text, err := job.EncodePayload(); text != nil || err == nil || err.Error() != "payload: "+problem {
			t.Errorf("encoded as %.20s, %v", text, err)
		}
	}
}
