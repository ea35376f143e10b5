package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What is enqueued is what the handler gets, and is the same as without a Kind.
func TestKindsCarryPayloads(t *testing.T) {
	carries(t, parcel{"ada", 2}, `{"To":"ada","Weight":2}`)
	carries(t, &parcel{"ada", 2}, `{"To":"ada","Weight":2}`)
	carries(t, (*parcel)(nil), `null`)
	carries(t, []int{1}, `[1]`)
	carries(t, "text", `"text"`)
	carries(t, []byte("bytes"), `"Ynl0ZXM="`)
	carries(t, json.RawMessage(`{"a":1e400}`), `{"a":1e400}`)
	carries(t, json.RawMessage(nil), ``)
	carries(t, struct{}{}, `{}`)
	carries[any](t, nil, ``)
	carries[any](t, json.RawMessage(`7`), `7`, 7.0)
	carries[any](t, map[string]any{"a": "b"}, `{"a":"b"}`)
}

func carries[P any](t *testing.T, payload P, encoded string, decoded ...P) {
	t.Helper()
	kind := jobs.NewKind[P]("mail", "letter")
	task := kind.New(payload)
	if task.Pool != "mail" || task.Kind != "letter" {
		t.Errorf("%+v", task)
	}
	raw, err := task.Encode()
	if err != nil || string(raw) != encoded {
		t.Errorf("%T is encoded as %s, %v; want %s", payload, raw, err, encoded)
	}
	var got P
	err = kind.Handle(func(_ context.Context, _ jobs.Task, p P) error { got = p; return nil }).Run(t.Context(), jobs.Task{Payload: raw}, nil)
	want := payload
	if len(decoded) > 0 {
		want = decoded[0]
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%T: got %v, %v; want %v", payload, got, err, want)
	}
}

// The handler of a kind stands in its pool, under its name, once.
func TestKindsAreWhereTheyBelong(t *testing.T) {
	letter, invoice := jobs.NewKind[parcel]("mail", "letter"), jobs.NewKind[int]("mail", "invoice")
	send := func(context.Context, jobs.Task, parcel) error { return nil }
	print := func(context.Context, jobs.Task, int) error { return nil }
	good := jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Kinds: jobs.Kinds(letter.Handle(send), invoice.Handle(print, around("a", nil)))},
	}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := good.Wrap(around("b", nil)).Validate(); err != nil {
		t.Error(err)
	}
	err := jobs.Set{Pools: map[string]jobs.Pool{
		"mail":  {Kinds: map[string]jobs.Handler{"leter": jobs.Wrap(letter.Handle(send), around("a", nil)), "x": jobs.NewKind[int]("mail", "x").Handle(nil)}},
		"post":  {Kinds: jobs.Kinds(letter.Handle(send))},
		"any":   {Handler: letter.Handle(send)},
		"twice": {Kinds: jobs.Kinds(jobs.NewKind[int]("twice", "a").Handle(print), jobs.NewKind[parcel]("twice", "a").Handle(send))},
		"none":  {Kinds: jobs.Kinds(jobs.NewKind[int]("none", "a b").Handle(print))},
	}}.Validate()
	want := strings.Join([]string{
		`pools.any: has the handler of kind "letter" of pool "mail", and is pool "any"; jobs.Kinds puts it where it belongs`,
		`pools.mail.kinds.leter: has the handler of kind "letter" of pool "mail", and is kind "leter" of pool "mail"; jobs.Kinds puts it where it belongs`,
		`pools.mail.kinds.x: has no handler; give it one, or remove it`,
		`pools.none.kinds.a b: "a b" is not a name; use letters, digits and . _ -, a letter or digit first, at most 64`,
		`pools.post.kinds.letter: has the handler of kind "letter" of pool "mail", and is kind "letter" of pool "post"; jobs.Kinds puts it where it belongs`,
		`pools.twice.kinds.a: has two handlers; remove one`,
	}, "\n")
	if d := cmp.Diff(want, fmt.Sprint(err)); d != "" {
		t.Error(d)
	}
	if _, err := jobs.NewKind[int]("mail", "a b").New(7).Encode(); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a kind without a name: %v", err)
	}
}

// It makes no difference to replicas whether a handler was made by a Kind.
func TestKindsHaveTheHashOfTheirFunction(t *testing.T) {
	letter := jobs.NewKind[Welcome]("mail", "welcome")
	typed := jobs.Pool{Kinds: jobs.Kinds(letter.Handle(sendWelcome))}
	bare := jobs.Pool{Kinds: map[string]jobs.Handler{"welcome": jobs.Func(sendWelcome)}}
	if typed.Hash() != bare.Hash() {
		t.Error("another hash")
	}
}
