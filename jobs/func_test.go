package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

type parcel struct {
	To     string
	Weight int
}

// What a function gets for a payload, as a user of Func sees it.
func TestFuncPayloads(t *testing.T) {
	for _, c := range []struct {
		handler func(got *any) jobs.Handler
		payload string
		want    any
		problem string
	}{
		{takes[parcel], `{"To":"ada","Weight":2}`, parcel{"ada", 2}, ""},
		{takes[parcel], `{"to":"ada","Colour":"red"}`, parcel{"ada", 0}, ""}, // a newer program's field
		{takes[parcel], ``, parcel{}, ""},
		{takes[parcel], `null`, parcel{}, ""},
		{takes[*parcel], `{"To":"ada"}`, &parcel{"ada", 0}, ""},
		{takes[*parcel], ``, (*parcel)(nil), ""},
		{takes[*parcel], `null`, (*parcel)(nil), ""},
		{takes[[]int], `[1,2]`, []int{1, 2}, ""},
		{takes[map[string]any], `{"a":1}`, map[string]any{"a": 1.0}, ""},
		{takes[any], `7`, 7.0, ""},
		{takes[json.RawMessage], `{"n": 1e400}`, json.RawMessage(`{"n": 1e400}`), ""},
		{takes[struct{}], `{"a":1}`, struct{}{}, ""},
		{takes[parcel], `"ada"`, nil, `the payload of kind "letter" of pool "mail" does not fit jobs_test.parcel: json: cannot unmarshal string`},
		{takes[parcel], `{"Weight":"heavy"}`, nil, "Weight"},
		{takes[int], `1.5`, nil, "does not fit int: json: "},
		{takes[parcel], `not JSON`, nil, "does not fit jobs_test.parcel: invalid character"},
	} {
		var got any
		err := c.handler(&got).Run(t.Context(), jobs.Task{Pool: "mail", Kind: "letter", Payload: []byte(c.payload)}, nil)
		switch {
		case c.problem == "":
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%q: %v %s", c.payload, err, diff)
			}
		case err == nil || !jobs.IsPermanent(err) || jobs.IsCancel(err) || !strings.Contains(err.Error(), c.problem):
			t.Errorf("%q: %v, want it failed for good with %q", c.payload, err, c.problem)
		}
	}
}

// The error says what the payload is of.
func TestPayloadsThatDoNotFitAreNamed(t *testing.T) {
	var got any
	h := takes[int](&got)
	for want, task := range map[string]jobs.Task{
		`not retried: the payload of job "digest" does not fit int: `:                 {Job: "digest", Pool: "mail", Kind: "letter"},
		`not retried: the payload of kind "letter" of pool "mail" does not fit int: `: {Pool: "mail", Kind: "letter"},
		`not retried: the payload of pool "mail" does not fit int: `:                  {Pool: "mail"},
	} {
		task.Payload = []byte(`"7"`)
		err := h.Run(t.Context(), task, nil)
		if _, is := errors.AsType[*json.UnmarshalTypeError](err); !is || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}

func takes[P any](got *any) jobs.Handler {
	return jobs.Func(func(_ context.Context, _ jobs.Task, p P) error { *got = p; return nil })
}

func TestFuncOfNothing(t *testing.T) {
	if h := jobs.Func[int](nil); h != nil {
		t.Fatalf("%#v", h)
	}
	err := jobs.Set{Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": jobs.Func[int](nil)}}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "pools.p.kinds.k") {
		t.Error(err)
	}
}

type shop struct{}

func (shop) sendParcel(context.Context, jobs.Task, parcel) error { return nil }

func TestFuncDescribesItself(t *testing.T) {
	described := func(h jobs.Handler) string { return h.(jobs.Described).Describe() }
	method := described(jobs.Func(shop{}.sendParcel))
	if !strings.Contains(method, "sendParcel") || !strings.Contains(method, "parcel)") {
		t.Error(method)
	}
	var got any
	if one, other := described(takes[int](&got)), described(takes[string](&got)); one == other {
		t.Errorf("two functions are %s", one)
	}
}

// Permanent, Cancel, RetryAfter and Snooze are found at any place of an error, also where they wrap nothing.
func TestVerdictsOfHandlers(t *testing.T) {
	cause := errors.New("no such user")
	for _, err := range []error{jobs.Cancel(cause), fmt.Errorf("send: %w", jobs.Cancel(cause)), errors.Join(cause, jobs.Cancel(cause))} {
		if !jobs.IsCancel(err) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "no such user") {
			t.Error(err)
		}
	}
	for _, err := range []error{jobs.Permanent(cause), fmt.Errorf("send: %w", jobs.Permanent(cause)), jobs.RetryAfter(time.Minute, jobs.Permanent(cause))} {
		if !jobs.IsPermanent(err) || !errors.Is(err, cause) || jobs.IsCancel(err) || !strings.Contains(err.Error(), "not retried: no such user") {
			t.Error(err)
		}
	}
	for _, err := range []error{jobs.RetryAfter(time.Minute, cause), fmt.Errorf("send: %w", jobs.RetryAfter(time.Minute, cause))} {
		if d, ok := jobs.RetryDelay(err); !ok || d != time.Minute || !errors.Is(err, cause) || jobs.IsCancel(err) {
			t.Error(err)
		}
	}
	if d, ok := jobs.RetryDelay(jobs.RetryAfter(-time.Minute, nil)); !ok || d != 0 {
		t.Error(d, ok)
	}
	for _, err := range []error{jobs.Permanent(nil), jobs.Cancel(nil), jobs.RetryAfter(time.Minute, nil)} {
		if text := err.Error(); text == "" || strings.Contains(text, "nil") {
			t.Errorf("%q", text)
		}
	}
	for _, err := range []error{nil, cause, jobs.Permanent(cause)} {
		if d, ok := jobs.RetryDelay(err); ok || d != 0 {
			t.Errorf("%v chooses a delay of %v", err, d)
		}
	}
	for _, err := range []error{jobs.Snooze(time.Minute), fmt.Errorf("no file yet: %w", jobs.Snooze(time.Minute)), jobs.RetryAfter(time.Hour, jobs.Snooze(time.Minute))} {
		if d, ok := jobs.SnoozeDelay(err); !ok || d != time.Minute || !strings.HasSuffix(err.Error(), "snoozed for 1m0s") {
			t.Errorf("%v: %v, %v", err, d, ok)
		}
	}
	if d, ok := jobs.SnoozeDelay(jobs.Snooze(-time.Minute)); !ok || d != 0 {
		t.Error(d, ok)
	}
	for _, err := range []error{nil, cause, jobs.RetryAfter(time.Minute, cause), jobs.Cancel(jobs.Snooze(time.Minute)), errors.Join(jobs.Snooze(time.Minute), jobs.Permanent(cause))} {
		if d, ok := jobs.SnoozeDelay(err); ok || d != 0 {
			t.Errorf("%v snoozes for %v", err, d)
		}
	}
	if jobs.IsCancel(nil) || jobs.IsCancel(cause) || jobs.IsPermanent(nil) || jobs.IsPermanent(jobs.Cancel(cause)) {
		t.Error("nothing was said of it")
	}
}
