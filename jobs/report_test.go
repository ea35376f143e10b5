package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// reporter keeps what was reported last.
type reporter struct {
	done   float64
	text   string
	times  int
	result string
	err    error
}

func (r *reporter) ReportProgress(done float64, text string) {
	r.done, r.text, r.times = done, text, r.times+1
}

func (r *reporter) ReportResult(result json.RawMessage) error {
	if r.err == nil {
		r.result = string(result)
	}
	return r.err
}

// A progress is a number from 0 to 1 and a short line, whatever the handler says.
func TestProgress(t *testing.T) {
	long := strings.Repeat("€", 100) // 300 bytes
	for _, c := range []struct {
		done float64
		text string
		want float64
		kept string
	}{
		{0.4, "half", 0.4, "half"},
		{-3, "", 0, ""},
		{17, " two\nlines\t", 1, "two lines"},
		{math.Inf(1), "a\x1b[31mb", 1, "a [31mb"},
		{math.Inf(-1), "a\xffb", 0, "a�b"},
		{1, long, 1, long[:198]}, // 200 is within a rune
	} {
		var r reporter
		if err := (jobs.Task{Reporter: &r}).Progress(c.done, c.text); err != nil || r.done != c.want || r.text != c.kept || r.times != 1 {
			t.Errorf("%v %.20q: reported %v %q, %d times, %v", c.done, c.text, r.done, r.text, r.times, err)
		}
	}
	var r reporter
	if err := (jobs.Task{Reporter: &r}).Progress(math.NaN(), "x"); !errors.Is(err, jobs.ErrInvalid) || r.times != 0 {
		t.Errorf("no number: %v, reported %d times", err, r.times)
	}
	if err := (jobs.Task{}).Progress(0.5, "nobody hears"); err != nil {
		t.Errorf("without a reporter: %v", err)
	}
}

// A result is what JSON can say in 64 KiB. What is refused leaves the last one.
func TestSetResult(t *testing.T) {
	r := reporter{}
	task := jobs.Task{Reporter: &r}
	for _, c := range []struct {
		value any
		want  string
	}{
		{map[string]int{"n": 1}, `{"n":1}`},
		{json.RawMessage("{\n \"a\": [1, 2] }\n"), `{"a":[1,2]}`},
		{"text", `"text"`},
		{json.RawMessage("null"), "null"},
		{nil, ""},
		{strings.Repeat("x", jobs.MaxResult-2), `"` + strings.Repeat("x", jobs.MaxResult-2) + `"`},
	} {
		if err := task.SetResult(c.value); err != nil || r.result != c.want {
			t.Errorf("%.40v: %.40q, %v", c.value, r.result, err)
		}
	}
	last := r.result
	for what, value := range map[string]any{
		"a channel":        make(chan int),
		"a function in it": map[string]any{"f": func() {}},
		"too large":        strings.Repeat("x", jobs.MaxResult-1),
		"no JSON":          json.RawMessage(`{"a":`),
		"empty":            json.RawMessage(nil),
		"too deep":         json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101)),
		"no UTF-8":         json.RawMessage("\"\xff\""),
		"not a number":     math.NaN(),
	} {
		if err := task.SetResult(value); !errors.Is(err, jobs.ErrInvalid) || !strings.HasPrefix(err.Error(), "result: ") || r.result != last {
			t.Errorf("%s: %v, result %.40q", what, err, r.result)
		}
		if err := (jobs.Task{}).SetResult(value); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s, without a reporter: %v", what, err)
		}
	}
	if err := (jobs.Task{}).SetResult(1); err != nil {
		t.Errorf("without a reporter: %v", err)
	}
	r.err = errors.New("over")
	if err := task.SetResult(1); !errors.Is(err, r.err) {
		t.Errorf("the reporter's error: %v", err)
	}
}

// A handler of Func reports by its task, and so does one behind middleware.
func TestHandlersReport(t *testing.T) {
	h := jobs.Wrap(jobs.Func(func(_ context.Context, t jobs.Task, n int) error {
		return errors.Join(t.Progress(0.5, "half"), t.SetResult(n+1))
	}), func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error { return next.Run(ctx, t, out) })
	})
	var r reporter
	if err := h.Run(t.Context(), jobs.Task{Payload: json.RawMessage("6"), Reporter: &r}, io.Discard); err != nil || r.done != 0.5 || r.text != "half" || r.result != "7" {
		t.Errorf("%v, reported %+v", err, r)
	}
}
