package jobs_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// holds holds a handler, and says so.
type holds struct{ inner jobs.Handler }

func (h *holds) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	return h.inner.Run(ctx, t, out)
}

func (h *holds) Unwrap() jobs.Handler { return h.inner }

func (h *holds) Describe() string { return fmt.Sprintf("holds %v", h.inner) }

// ring is a handler that surrounds itself, with so many others in between.
func ring(n int) jobs.Handler {
	first := &holds{}
	first.inner = first
	for range n - 1 {
		first.inner = &holds{first.inner}
	}
	return first
}

// A handler that would panic at its first run is refused before, wherever it stands and whatever it is wrapped in.
func TestNilHandlersAreRefused(t *testing.T) {
	work := jobs.Func(sendWelcome)
	for what, h := range map[string]jobs.Handler{
		"has a handler that is a nil jobs.HandlerFunc; give it one that is not, or remove it":                  jobs.HandlerFunc(nil),
		"has a handler that is a nil *jobs_test.slack; give it one that is not, or remove it":                  (*slack)(nil),
		"has a handler that is a nil jobs_test.mine; give it one that is not, or remove it":                    mine(nil),
		"has a handler that is a nil *jobs_test.holds; give it one that is not, or remove it":                  (*holds)(nil),
		"has a handler that is a nil *jobs_test.bare; give it one that is not, or remove it":                   &holds{(*bare)(nil)},
		"has a handler that is a nil *jobs_test.teamHandler; give it one that is not, or remove it":            jobs.Named("x", (*teamHandler)(nil)),
		"has a handler that surrounds itself; the Unwrap of a *jobs_test.holds must return the handler in it":  ring(1),
		"has a handler that surrounds itself; the Unwrap of a *jobs_test.holds must return the handler in it ": jobs.Named("x", ring(2)),
		"has no handler; give it one, or remove it":                                                            &holds{},
		"has no handler; give it one, or remove it ":                                                           jobs.NewKind[int]("p", "k").Handle(nil),
		"has a handler that is a nil jobs.HandlerFunc; give it one that is not, or remove it  ":                jobs.Wrap(jobs.HandlerFunc(nil), around("a", nil)),
	} {
		want := strings.TrimSpace(what)
		for path, set := range map[string]jobs.Set{
			"jobs.a":          {Jobs: map[string]jobs.Job{"a": {Handler: h}}, Pools: map[string]jobs.Pool{"default": {Handler: work}}},
			"jobs.a.notify":   {Jobs: map[string]jobs.Job{"a": {Handler: work, Notify: jobs.Notify{Handler: h}}}},
			"pools.p":         {Pools: map[string]jobs.Pool{"p": {Handler: h}}},
			"pools.p.kinds.k": {Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": h}}}},
			"pools.p.notify":  {Pools: map[string]jobs.Pool{"p": {Notify: jobs.Notify{Handler: h, On: []jobs.Event{jobs.EventFailed}}}}},
		} {
			for _, set := range []jobs.Set{set, set.Wrap(around("b", nil))} {
				err := set.Validate()
				if d := cmp.Diff(path+": "+want, fmt.Sprint(err)); d != "" {
					t.Error(d)
				}
				_ = set.Jobs["a"].Hash() // nothing of it panics
				_ = set.Pools["p"].Hash()
			}
		}
	}
	if h := jobs.Wrap(work, func(jobs.Handler) jobs.Handler { return (*slack)(nil) }); h != nil {
		t.Errorf("middleware made nil: %#v", h)
	}
}

type teamHandler struct{ team }

func (*teamHandler) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// The handler of a kind is one of a job of its pool, and of no other, and never one that is notified.
func TestHandlersOfKindsInJobs(t *testing.T) {
	letter := jobs.NewKind[jobs.Notification]("mail", "letter").Handle(tellAll)
	pools := map[string]jobs.Pool{"mail": {}, "post": {}}
	for want, job := range map[string]jobs.Job{
		"": {Pool: "mail", Handler: letter},
		`jobs.a: has the handler of kind "letter" of pool "mail", and its pool is "default"; name that kind and that pool in place of the handler, or use jobs.Func`: {Handler: letter},
		`jobs.a: has the handler of kind "letter" of pool "mail", and its pool is "post"; name that kind and that pool in place of the handler, or use jobs.Func`:    {Pool: "post", Handler: jobs.Wrap(letter, around("a", nil))},
		`jobs.a.notify: has the handler of kind "letter" of pool "mail", and gets notifications; use jobs.Func`:                                                      {Handler: jobs.Func(sendWelcome), Notify: jobs.Notify{Handler: letter}},
	} {
		got := ""
		if err := (jobs.Set{Pools: pools, Jobs: map[string]jobs.Job{"a": job}}).Validate(); err != nil {
			got = err.Error()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func tellAll(context.Context, jobs.Task, jobs.Notification) error { return nil }
