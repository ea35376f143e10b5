package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

type welcome struct{ User int }

func TestKey(t *testing.T) {
	at := time.Date(2026, 6, 1, 10, 30, 0, 0, time.FixedZone("", 2*3600))
	for _, c := range []struct {
		task Task
		set  string
		want string
	}{
		{Task{ID: "id", Job: "nightly", ScheduledAt: at}, "", "nightly@2026-06-01T08:30:00Z"},
		{Task{ID: "id", Job: "nightly", ScheduledAt: at}, "prod", "prod/nightly@2026-06-01T08:30:00Z"},
		{Task{ID: "id", Job: "nightly", ScheduledAt: at, Seq: 3}, "", "nightly@2026-06-01T08:30:00Z/3"},
		{Task{ID: "id", Job: "nightly", ScheduledAt: at.Add(1500 * time.Microsecond), Seq: 1}, "", "nightly@2026-06-01T08:30:00.0015Z/1"},
		{Task{ID: "id", Job: "nightly", ScheduledAt: at, RetryOf: "first"}, "", "nightly@2026-06-01T08:30:00Z"},
		{Task{ID: "id"}, "", "id"},
		{Task{ID: "id", Job: "nightly"}, "", "id"},
		{Task{ID: "id", ScheduledAt: at}, "", "id"},
		{Task{ID: "id", RetryOf: "first"}, "prod", "prod/first"},
	} {
		if got := c.task.IdempotencyKeyIn(c.set); got != c.want {
			t.Errorf("Key(%q) of %+v = %q, want %q", c.set, c.task, got, c.want)
		}
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		payload any
		want    string
	}{
		{nil, ""},
		{json.RawMessage(nil), ""},
		{json.RawMessage{}, ""},
		{welcome{7}, `{"User":7}`},
		{"text", `"text"`},
		{[]byte(`{"a":1}`), `"eyJhIjoxfQ=="`}, // as the comment of the field says
		{7, "7"},
		{json.RawMessage(" {\"a\" : [1,\n2]} "), `{"a":[1,2]}`},
		{json.RawMessage("1e400"), "1e400"},
		{json.RawMessage(`"[[[{{{\""`), `"[[[{{{\""`},
		{json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100)), strings.Repeat("[", 100) + strings.Repeat("]", 100)},
	} {
		got, err := NewTask{Pool: "mail", Payload: c.payload}.Encode()
		if err != nil || string(got) != c.want || (got == nil) != (c.want == "") {
			t.Errorf("%v: %q, %v, want %q", c.payload, got, err, c.want)
		}
	}
	fine := NewTask{Pool: "mail", Kind: "welcome", Priority: -100, RunAt: monday, IdempotencyKey: strings.Repeat("k", 255), Tags: []string{"a", "b c"}}
	if _, err := fine.Encode(); err != nil {
		t.Error(err)
	}
}

func TestEncodeSaysEverythingAtOnce(t *testing.T) {
	_, err := NewTask{
		Pool: "a b", Kind: "../x", Payload: json.RawMessage("{"), Priority: 101, RunAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		IdempotencyKey: "a\x00b", Tags: []string{"ok", "", "a\nb", strings.Repeat("t", 65)},
	}.Encode()
	got := found(t, err)
	for _, path := range []string{"pool", "kind", "payload", "priority", "run_at", "idempotency_key", "tags[1]", "tags[2]", "tags[3]"} {
		if got[path] == "" {
			t.Errorf("nothing about %s in %v", path, err)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("unexpected: %v", got)
	}
	_, err = NewTask{Pool: "p", Tags: make([]string, 1000)}.Encode() // costs no more than a list that is short enough
	if got := found(t, err); len(got) > 1+limits.Tags || got["tags"] == "" {
		t.Errorf("a thousand bad tags: %d problems", len(got))
	}
	for what, n := range map[string]NewTask{
		"no pool":       {},
		"large payload": {Pool: "p", Payload: strings.Repeat("x", MaxPayload)},
		"deep payload":  {Pool: "p", Payload: json.RawMessage(strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000))},
		"no JSON":       {Pool: "p", Payload: func() {}},
		"infinite":      {Pool: "p", Payload: math.Inf(1)},
		"two values":    {Pool: "p", Payload: json.RawMessage("1 2")},
		"not UTF-8":     {Pool: "p", Payload: json.RawMessage("\"\xff\"")},
		"long key":      {Pool: "p", IdempotencyKey: strings.Repeat("k", 256)},
		"many tags":     {Pool: "p", Tags: strings.Split(strings.Repeat("t,", 20)+"t", ",")},
		"before 1971":   {Pool: "p", RunAt: time.Unix(0, 0).UTC()},
	} {
		if _, err := n.Encode(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
}

func TestFunc(t *testing.T) {
	var got []welcome
	h := Func(func(_ context.Context, _ Task, w welcome) error {
		got = append(got, w)
		if w.User == 9 {
			return RetryAfter(time.Minute, errors.New("later"))
		}
		return nil
	})
	run := func(payload string) error { return h.Run(t.Context(), Task{Payload: json.RawMessage(payload)}, nil) }
	if err := errors.Join(run(`{"User":7,"New":1}`), run("")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]welcome{{7}, {0}}, got); diff != "" {
		t.Errorf("payloads (−want +got):\n%s", diff)
	}
	for _, payload := range []string{`{"User":"seven"}`, `[1]`, `{`} {
		if err := run(payload); !IsPermanent(err) || len(got) != 2 {
			t.Errorf("payload %s: %v, want it Permanent before the function is called", payload, err)
		}
	}
	if d, ok := RetryDelay(run(`{"User":9}`)); !ok || d != time.Minute {
		t.Errorf("the function's error: delay %v, %v", d, ok)
	}
}

func TestRetriesDelay(t *testing.T) {
	r := Retries{Backoff: time.Second, MaxBackoff: 10 * time.Second}
	middle := func() float64 { return 0.5 }
	for n, want := range map[int]time.Duration{0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, 1000: 10, math.MaxInt: 10} {
		if got := r.Delay(n, middle); got != want*time.Second {
			t.Errorf("after attempt %d: %v, want %v", n, got, want*time.Second)
		}
	}
	if low, high := r.Delay(1, func() float64 { return 0 }), r.Delay(1, func() float64 { return 1 }); low != 800*time.Millisecond || high != 1200*time.Millisecond {
		t.Errorf("jitter from %v to %v, want ± 20 %%", low, high)
	}
	if got := (Retries{}).Delay(1, middle); got != time.Second {
		t.Errorf("zero Retries: %v, want %v", got, time.Second)
	}
	if got := (Retries{Backoff: duration.Max, MaxBackoff: duration.Max}).Delay(99, nil); got < duration.Max*8/10 || got > duration.Max*12/10 {
		t.Errorf("a year: %v", got)
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[r.Delay(3, nil)] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d different delays of 20", len(seen))
	}
}

// The delay is what its formula says, to the nanosecond, for whatever bounds.
func TestRetriesDelayIsItsFormula(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		r := Retries{Backoff: time.Duration(1 + rnd.Int64N(1<<rnd.Int64N(40)))}
		r.MaxBackoff = r.Backoff + time.Duration(rnd.Int64N(1<<rnd.Int64N(40)))
		want := r.Backoff
		for n := 1; n < 50; n++ {
			if got := r.Delay(n, func() float64 { return 0.5 }); got != want {
				t.Fatalf("%+v after attempt %d: %d ns, want %d", r, n, got, want)
			}
			want = min(2*want, r.MaxBackoff)
		}
	}
	if got := (Retries{Backoff: 3 * time.Second, MaxBackoff: 2 * time.Second}).Delay(1, func() float64 { return 0.5 }); got != 2*time.Second {
		t.Errorf("with the bound below the backoff: %v", got)
	}
}

func TestWithDefaults(t *testing.T) {
	job := Job{}.WithDefaults()
	want := Job{
		Timezone: "UTC", Pool: "default", Timeout: 24 * time.Hour, Concurrency: Forbid, MaxRunning: 1, OnLost: LostFails, LostLimit: 3,
		CatchUp: CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour, Limit: 10, Grace: 10 * time.Second},
		Retries: Retries{Limit: 0, Backoff: time.Second, MaxBackoff: 15 * time.Minute},
		Output:  Output{FileSize: 10 << 20, Files: 5},

		Calendars: JobCalendars{Otherwise: OtherwiseSkip},
	}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("job (−want +got):\n%s", diff)
	}
	wantPool := Pool{
		Workers: 10, Order: OrderNone, Timeout: 30 * time.Minute, OnLost: LostRetries, LostLimit: 3,
		Retries: Retries{Limit: 10, Backoff: time.Second, MaxBackoff: 15 * time.Minute},
		Output:  Output{FileSize: 10 << 20, Files: 5},
	}
	if diff := cmp.Diff(wantPool, Pool{}.WithDefaults()); diff != "" {
		t.Errorf("pool (−want +got):\n%s", diff)
	}
	everyField(t, Job{}, func(field string, altered Job) {
		if fmt.Sprint(altered.WithDefaults()) == fmt.Sprint(job) {
			t.Errorf("%s is overwritten", field)
		}
	})
	for limit, attempts := range map[int]int{0: 11, 3: 4, NoRetries: 1} {
		filled := Pool{Retries: Retries{Limit: limit}}.WithDefaults().WithDefaults() // the second time changes nothing
		if filled.Retries.Attempts() != attempts || filled.Retries.Backoff != time.Second {
			t.Errorf("a pool with limit %d: %+v", limit, filled.Retries)
		}
		filled = Set{Pools: map[string]Pool{naming.NotificationsPool: {Retries: Retries{Limit: limit, Backoff: time.Minute}}}}.WithDefaults().Pools[naming.NotificationsPool]
		if limit == 0 {
			attempts = 21
		}
		if filled.Retries.Attempts() != attempts || filled.Retries.Backoff != time.Minute {
			t.Errorf("notifications with limit %d: %+v", limit, filled.Retries)
		}
		job := Job{Retries: Retries{Limit: limit}}.WithDefaults()
		if want := max(limit, 0); job.Retries.Limit != want || job.Retries.Attempts() != want+1 {
			t.Errorf("a job with limit %d: %+v", limit, job.Retries)
		}
	}
	set := Set{Pools: map[string]Pool{"a": {}}, Jobs: map[string]Job{"j": {}}}
	filled := set.WithDefaults()
	if len(set.Pools) != 1 || set.Jobs["j"].Pool != "" || filled.Pools[naming.DefaultPool].Workers != 10 || filled.Pools["a"].Workers != 10 || filled.Jobs["j"].Pool != "default" {
		t.Errorf("set %+v, filled %+v", set, filled)
	}
}
