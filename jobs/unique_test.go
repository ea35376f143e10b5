package jobs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a task is compared by has the values that it names and no others, each as compact JSON, whatever the order of the names.
func TestUniqueValues(t *testing.T) {
	payload := ` {"user": {"id": 7, "a.b": 1}, "n": 1.0, "null": null, "list": [1, {"x": 2}], "ü": "\u00e9"} `
	for by, want := range map[string]string{
		"":                            `{"kind":"k","payload":{"user":{"id":7,"a.b":1},"n":1.0,"null":null,"list":[1,{"x":2}],"ü":"\u00e9"}}`,
		"kind key":                    `{"key":"tenant \"7\"","kind":"k"}`,
		"key kind":                    `{"key":"tenant \"7\"","kind":"k"}`,
		"payload.user":                `{"payload.user":{"id":7,"a.b":1}}`,
		"payload.user.id":             `{"payload.user.id":7}`,
		"payload.n payload.ü":         `{"payload.n":1.0,"payload.ü":"\u00e9"}`,
		"payload.none payload.null":   `{"payload.none":null,"payload.null":null}`,
		"payload.user.id.deeper":      `{"payload.user.id.deeper":null}`,
		"payload.user.a.b":            `{"payload.user.a.b":null}`,
		"payload.list payload.list.x": `{"payload.list":[1,{"x":2}],"payload.list.x":null}`,
	} {
		n := NewTask{Pool: "p", Kind: "k", Key: `tenant "7"`, Payload: json.RawMessage(payload), Unique: &Unique{}}
		if by != "" {
			n.Unique.By = strings.Split(by, " ")
		}
		text, err := n.Encode()
		if err != nil {
			t.Errorf("%s: %v", by, err)
		}
		if got := string(n.UniqueValues(text)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("by %q: %s, want %s", by, got, want)
		}
	}
	for _, n := range []NewTask{{Unique: &Unique{By: []string{"payload"}}}, {Unique: &Unique{By: []string{"payload"}}, Payload: json.RawMessage("null")}} {
		n.Pool = "p"
		text, err := n.Encode()
		if got := string(n.UniqueValues(text)); got != `{"payload":null}` || err != nil {
			t.Errorf("no payload: %s, %v", got, err)
		}
	}
	if got := (NewTask{}).UniqueValues(nil); got != nil {
		t.Errorf("a task that is not unique has %s", got)
	}
}

func TestUniqueDefaults(t *testing.T) {
	for _, c := range []struct{ is, want Unique }{
		{Unique{}, Unique{By: []string{"kind", "payload"}, While: WhileOpen, OnConflict: ConflictKeeps}},
		{Unique{For: time.Minute}, Unique{By: []string{"kind", "payload"}, For: time.Minute, OnConflict: ConflictKeeps}},
		{Unique{By: []string{"key"}, While: WhilePending, OnConflict: ConflictRejects}, Unique{By: []string{"key"}, While: WhilePending, OnConflict: ConflictRejects}},
	} {
		if d := cmp.Diff(c.want, c.is.WithDefaults()); d != "" {
			t.Error(d)
		}
	}
}

func TestUniqueProblems(t *testing.T) {
	many := strings.Split("kind,key,payload,payload.1,payload.2,payload.3,payload.4,payload.5,payload.6,payload.7,payload.8,payload.9,payload.a,payload.b,payload.c,payload.d", ",")
	const says = " is unknown; use kind, key, payload, or a field as in payload.user"
	for _, c := range []struct {
		is   Unique
		want string
	}{
		{Unique{By: many, For: time.Millisecond}, ""},
		{Unique{By: []string{"payload." + strings.Repeat("x", 247)}, For: 366 * 24 * time.Hour}, ""},
		{Unique{By: []string{"payload.no blanks?", "payload.ü"}, While: WhilePending, OnConflict: ConflictReplaces}, ""},
		{Unique{By: []string{}}, "unique.by: names nothing; leave it out for kind and payload"},
		{Unique{By: slices.Concat(many, []string{"payload.e"})}, "unique.by: 17 names, at most 16 are allowed"},
		{Unique{By: []string{"kind", "key", "kind"}}, "unique.by[2]: kind stands twice"},
		{Unique{By: []string{"payload." + strings.Repeat("x", 248)}}, "unique.by[0]: must be at most 255 bytes of printable text"},
		{Unique{By: []string{"payload.a\n"}}, "unique.by[0]: must be at most 255 bytes of printable text"},
		{Unique{By: []string{"payload.\xff"}}, "unique.by[0]: must be at most 255 bytes of printable text"},
		{Unique{By: []string{"key", "user"}}, `unique.by[1]: "user"` + says},
		{Unique{By: []string{"", "payloads", "payload.", "payload.a.", "payload..a", "Kind"}}, `unique.by[0]: ""` + says + "\n" +
			`unique.by[1]: "payloads"` + says + "\n" + `unique.by[2]: "payload."` + says + "\n" + `unique.by[3]: "payload.a."` + says + "\n" +
			`unique.by[4]: "payload..a"` + says + "\n" + `unique.by[5]: "Kind"` + says},
		{Unique{For: -1}, "unique.for: -1ns is negative; leave it out for none"},
		{Unique{For: time.Millisecond - 1}, "unique.for: 999.999µs is too short; at least 1ms is allowed"},
		{Unique{For: 366*24*time.Hour + 1}, "unique.for: 8784h0m0.000000001s is longer than a year"},
		{Unique{While: "running", OnConflict: "drop"}, `unique.while: "running" is unknown; use pending or open` + "\n" + `unique.on_conflict: "drop" is unknown; use keep or replace or reject`},
	} {
		if _, err := (NewTask{Pool: "p", Unique: &c.is}).Encode(); text(err) != c.want {
			t.Errorf("%+v: got %v\nwant %s", c.is, err, c.want)
		}
	}
}

// In JSON a duration is written as in definitions, and read so.
func TestUniqueJSON(t *testing.T) {
	for text, want := range map[string]Unique{
		`{}`: {},
		`{"by":["kind","payload.user"],"for":"10m0s","while":"pending","on_conflict":"replace"}`: {[]string{"kind", "payload.user"}, 10 * time.Minute, WhilePending, ConflictReplaces},
		`{"by":[]}`: {By: []string{}},
	} {
		is := Unique{By: []string{"key"}, For: 1}
		if err := json.Unmarshal([]byte(text), &is); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, is); d != "" {
			t.Errorf("%s: %s", text, d)
		}
		if got, err := json.Marshal(want); string(got) != text || err != nil {
			t.Errorf("%+v is written as %s, %v", want, got, err)
		}
	}
	var is Unique
	if err := json.Unmarshal([]byte(`{"for":"2d"}`), &is); err != nil || is.For != 48*time.Hour {
		t.Errorf("two days are %v, %v", is.For, err)
	}
	for text, want := range map[string]string{
		`{"for":"10"}`:   `duration "10" has no unit; did you mean 10s?`,
		`{"for":10}`:     "cannot unmarshal number",
		`{"until":"1s"}`: `unknown field "until"`,
	} {
		if err := json.Unmarshal([]byte(text), &is); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
