package jobs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pathsOf(t *testing.T, err error) (all []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not joined: %v", err)
	}
	for _, one := range joined.Unwrap() {
		wrong, ok := errors.AsType[*FieldError](one)
		if !ok || !errors.Is(one, ErrInvalid) {
			t.Fatalf("%v is no FieldError", one)
		}
		all = append(all, wrong.Error())
	}
	return all
}

// What params say of a payload names the field by its JSON pointer.
func TestParams(t *testing.T) {
	schema := map[string]any{
		"type": "object", "required": []string{"to"}, "additionalProperties": false,
		"properties": map[string]any{
			"to":   map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/address"}},
			"a/~b": map[string]any{"type": "integer", "maximum": 10},
			"day":  map[string]any{"format": "date"},
		},
		"$defs": map[string]any{"address": map[string]any{"type": "string", "minLength": 3}},
	}
	params, err := Job{Params: schema}.CompileParams()
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"to":["ann"],"a/~b":10}`:              "",
		`{"to":[]}`:                             "",
		`{"to":["ann",5]}`:                      "payload/to/1: ",
		`{"to":["ann","bob","x"]}`:              "payload/to/2: ",
		`{"to":[],"a/~b":11}`:                   "payload/a~1~0b: ",
		`{"to":[],"a/~b":1e5000000}`:            "payload/a~1~0b: 1e5000000 is out of range",
		`{"to":[],"a/~b":1e-401}`:               "payload/a~1~0b: 1e-401 is out of range",
		`{"to":[],"a/~b":1e-99999999999999999}`: "payload/a~1~0b: ",
		`{"to":[],"day":"2026-13-01"}`:          "payload/day: ",
		`{"cc":1,"to":[]}`:                      "payload: ",
		`{}`:                                    "payload: ",
		``:                                      "payload: ",
		`null`:                                  "payload: ",
		`{"to":["ann"],"day":"2026-12-01"} trash`: "payload: not valid JSON",
	} {
		got := pathsOf(t, params.Check(json.RawMessage(payload)))
		if want == "" && got != nil || want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
	var none *Params
	if err := none.Check(json.RawMessage(`{"to":17,"to":[]}`)); err != nil {
		t.Errorf("without params: %v", err)
	}
}

// Several problems are said at once, and not more than a person reads.
func TestParamsSayEverything(t *testing.T) {
	params, err := Job{Params: json.RawMessage(`{"items":{"type":"string"}}`)}.CompileParams()
	if err != nil {
		t.Fatal(err)
	}
	if got := pathsOf(t, params.Check(json.RawMessage(`[1,"a",2]`))); len(got) != 2 || !strings.HasPrefix(got[0], "payload/0: ") || !strings.HasPrefix(got[1], "payload/2: ") {
		t.Errorf("of two: %q", got)
	}
	if got := pathsOf(t, params.Check(json.RawMessage("[1"+strings.Repeat(",1", 500)+"]"))); len(got) != mostWrong {
		t.Errorf("of 501: %d", len(got))
	}
}

// Where one of several schemas has to accept a value, what each has against it is said, at one place; and all that is wrong is said in one order.
func TestParamsSayWhatEachAlternativeRefuses(t *testing.T) {
	params, err := Job{Params: json.RawMessage(`{
		"required": ["month"], "additionalProperties": false,
		"properties": {
			"month": {"anyOf": [{"const": "latest"}, {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"}, {"const": "latest"}]},
			"to":    {"oneOf": [{"type": "string"}, {"type": "object", "required": ["name"], "properties": {"zip": {"type": "string"}}}]},
			"n":     {"oneOf": [{"type": "integer"}, {"type": "number"}]}
		}
	}`)}.CompileParams()
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string][]string{
		`{"month":"May"}`:                         {"payload/month: value must be 'latest', or 'May' does not match pattern '^[0-9]{4}-[0-9]{2}$', by the job's params"},
		`{"month":"latest","to":{"zip":5},"n":1}`: {"payload/n: 'oneOf' failed, subschemas 0, 1 matched, by the job's params", "payload/to: got object, want string, or missing property 'name' and zip: got number, want string, by the job's params"},
		`{"d":1,"c":1,"b":1,"a":1}`:               {"payload: additional properties 'a', 'b', 'c', 'd' not allowed, by the job's params", "payload: missing property 'month', by the job's params"},
	} {
		for range 20 {
			if got := pathsOf(t, params.Check(json.RawMessage(payload))); !slices.Equal(got, want) {
				t.Errorf("%s:\n%q, want\n%q", payload, got, want)
				break
			}
		}
	}
}

// A schema that is none, or that leads out of itself, is refused where it stands.
func TestWrongParams(t *testing.T) {
	for schema, want := range map[string]string{
		`5`:                                   "jobs.x.params: must be a JSON Schema",
		`"text"`:                              "jobs.x.params: must be a JSON Schema",
		`{"type":"objekt"}`:                   "jobs.x.params.type: not a JSON Schema: ",
		`{"properties":{"a":{"type":7}}}`:     "jobs.x.params.properties.a.type: not a JSON Schema: ",
		`{"allOf":[{},{"minLength":"x"}]}`:    "jobs.x.params.allOf[1].minLength: not a JSON Schema: ",
		`{"pattern":"["}`:                     "jobs.x.params.pattern: ",
		`{"maximum":1e999999}`:                "jobs.x.params.maximum: 1e999999 is out of range",
		`{"$ref":"#/$defs/none"}`:             "jobs.x.params: not a JSON Schema: ",
		`{"$ref":"https://example.com/a"}`:    "jobs.x.params: not a JSON Schema: ",
		`{"$ref":"file:///etc/passwd"}`:       "jobs.x.params: not a JSON Schema: ",
		`{"$schema":"https://example.com/a"}`: "jobs.x.params: not a JSON Schema: ",
		`{"title":"` + strings.Repeat("x", MaxParams) + `"}`: "jobs.x.params: 65548 bytes, at most 65536 are allowed",
	} {
		set := Set{Jobs: map[string]Job{"x": {Handler: says("h"), Params: json.RawMessage(schema)}}}
		if got := pathsOf(t, set.Validate()); len(got) == 0 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%.80s: %.300q, want %q", schema, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type": "object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Job{Params: map[string]any{"$ref": "file://" + file}}).CompileParams(); err == nil || !strings.Contains(err.Error(), "no other document is read") {
		t.Errorf("a schema in a file: %v", err)
	}
	for _, schema := range []string{`{}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, `{"$ref":"#/$defs/a","$defs":{"a":true}}`, `{"$id":"https://example.com/a","$ref":"#"}`} {
		set := Set{Jobs: map[string]Job{"x": {Handler: says("h"), Params: json.RawMessage(schema)}}}
		if err := set.Validate(); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// The order of the keys of params is not part of a definition, and their numbers are.
func TestHashOfParams(t *testing.T) {
	a := Job{Params: json.RawMessage(`{"type": "object", "maximum": 9007199254740993}`)}
	b := Job{Params: map[string]any{"maximum": 9007199254740993, "type": "object"}}
	c := Job{Params: json.RawMessage(`{"type": "object", "maximum": 9007199254740992}`)}
	if a.Hash() != b.Hash() || a.Hash() == c.Hash() || a.Hash() == (Job{}).Hash() {
		t.Errorf("%s %s %s %s", a.Hash(), b.Hash(), c.Hash(), Job{}.Hash())
	}
}

func TestNewRun(t *testing.T) {
	if payload, err := (NewRun{Payload: map[string]int{"n": 1}, By: "ann"}).Encode(); err != nil || string(payload) != `{"n":1}` {
		t.Errorf("%s, %v", payload, err)
	}
	if payload, err := (NewRun{}).Encode(); err != nil || payload != nil {
		t.Errorf("%s, %v", payload, err)
	}
	got := pathsOf(t, func() error {
		_, err := NewRun{Payload: make(chan int), By: strings.Repeat("x", 256)}.Encode()
		return err
	}())
	if len(got) != 2 || !strings.HasPrefix(got[0], "payload: ") || !strings.HasPrefix(got[1], "by: ") {
		t.Errorf("%q", got)
	}
}

// The payload that a definition gives its job has to match its own params; without one, what they require is for runs by hand to bring.
func TestTheJobsOwnPayloadMatchesItsParams(t *testing.T) {
	params := json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"items":{"type":"string"}}}}`)
	for payload, want := range map[string]string{
		``:                 "",
		`{"to":["ann"]}`:   "",
		`{"to":["ann",5]}`: "jobs.x.payload.to[1]: got number, want string, by the job's params; write a payload that they accept, or change params",
		`{}`:               "jobs.x.payload: missing property 'to', by the job's params; write a payload that they accept, or change params",
		`null`:             "",
		`{"to":1e999}`:     "jobs.x.payload.to: 1e999 is out of range for a number; its exponent may be −400…400, by the job's params; write a payload that they accept, or change params",
		`{"to"`:            "jobs.x.payload: not valid JSON",
	} {
		for _, schedule := range []string{"", "@hourly"} {
			job := Job{Handler: says("h"), Schedule: schedule, Params: params}
			if payload != "" {
				job.Payload = json.RawMessage(payload)
			}
			if got := strings.Join(pathsOf(t, Set{Jobs: map[string]Job{"x": job}}.Validate()), "\n"); got != want {
				t.Errorf("%q with schedule %q: %q, want %q", payload, schedule, got, want)
			}
		}
	}
}
