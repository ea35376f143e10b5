package jobs

import (
	"context"
	"io"
	"testing"
)

// Every field tells two definitions apart, those for people included.
func TestSame(t *testing.T) {
	job, pool := Job{Schedule: "@daily", Handler: says("h")}, Pool{Handler: says("h"), Fair: &Fair{}}
	if as := job; !job.Same(&as) {
		t.Error("a job is not the same as a copy")
	}
	if as := pool; !pool.Same(&as) {
		t.Error("a pool is not the same as a copy")
	}
	everyField(t, job, func(field string, altered Job) {
		if job.Same(&altered) || altered.Same(&job) {
			t.Errorf("a change of %s makes no other job", field)
		}
		if as := altered; !altered.Same(&as) {
			t.Errorf("a job with another %s is not the same as a copy", field)
		}
	})
	everyField(t, pool, func(field string, altered Pool) {
		if pool.Same(&altered) || altered.Same(&pool) {
			t.Errorf("a change of %s makes no other pool", field)
		}
		if as := altered; !altered.Same(&as) {
			t.Errorf("a pool with another %s is not the same as a copy", field)
		}
	})
}

type stateful struct{ n int }

func (*stateful) Run(context.Context, Task, io.Writer) error { return nil }

type spoken struct{ by string }

func (spoken) Run(context.Context, Task, io.Writer) error { return nil }
func (f spoken) Same(other Handler) bool                  { as, is := other.(spoken); return is && as.by == f.by }

// Handlers are the same if they are one value, or say so. What a function captures cannot be seen: two of one literal are not.
func TestSameHandlers(t *testing.T) {
	one := &stateful{}
	literal := func(n int) Handler {
		return Func(func(context.Context, Task, struct{}) error { _ = n; return nil })
	}
	kept := literal(1)
	by := func(body string, h Handler) Handler {
		parsed, err := ParseTemplate([]byte(body)) // each load of a file parses it anew
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Send(h)
	}
	for what, c := range map[string]struct {
		a, b Handler
		want bool
	}{
		"none":              {nil, nil, true},
		"none and one":      {nil, one, false},
		"one pointer":       {one, one, true},
		"equal states":      {one, &stateful{}, false},
		"equal values":      {says("a"), says("a"), true},
		"other values":      {says("a"), says("b"), false},
		"those that say so": {spoken{"a"}, spoken{"a"}, true},
		"those that do not": {spoken{"a"}, spoken{"b"}, false},
		"two functions":     {literal(1), literal(2), false},
		"one function":      {kept, kept, true},
		"workers":           {Worker{}, Worker{}, true},
		"equal templates":   {by(`{"a": 1}`, says("a")), by(`{"a": 1}`, says("a")), true},
		"other templates":   {by(`{"a": 1}`, says("a")), by(`{"a": 2}`, says("a")), false},
		"templates to two":  {by(`{"a": 1}`, says("a")), by(`{"a": 1}`, says("b")), false},
	} {
		if got := sameHandler(c.a, c.b); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
