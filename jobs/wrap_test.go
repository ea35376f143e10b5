package jobs_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// around is middleware that notes when it is passed.
func around(name string, log *[]string) func(jobs.Handler) jobs.Handler {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error {
			*log = append(*log, "into "+name)
			defer func() { *log = append(*log, "out of "+name) }()
			return next.Run(ctx, t, out)
		})
	}
}

// impostor is a middleware that says other things of itself.
type impostor struct{ jobs.Handler }

func (impostor) Describe() string         { return "impostor" }
func (impostor) Identity() string         { return "impostor" }
func (impostor) StopGrace() time.Duration { return time.Nanosecond }

func TestWrapRunsInOrder(t *testing.T) {
	var log []string
	failed := errors.New("failed")
	h := jobs.Wrap(jobs.Func(func(_ context.Context, t jobs.Task, text string) error {
		log = append(log, "run with "+text)
		return failed
	}), around("a", &log), nil, around("b", &log))
	if err := h.Run(t.Context(), jobs.Task{Payload: []byte(`"x"`)}, nil); !errors.Is(err, failed) {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"into a", "into b", "run with x", "out of b", "out of a"}, log); d != "" {
		t.Error(d)
	}
}

// Whatever the middleware is, a wrapped handler is what it was, for the hash and for people.
func TestWrapKeepsWhatAHandlerIs(t *testing.T) {
	command, err := exechandler.New(exechandler.Command{Argv: []string{"true"}, Env: map[string]string{"A": "secret"}, StopGrace: 7 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	for what, middleware := range map[string][]func(jobs.Handler) jobs.Handler{
		"none":     nil,
		"closure":  {around("a", &log)},
		"impostor": {func(next jobs.Handler) jobs.Handler { return impostor{next} }},
	} {
		for name, h := range map[string]jobs.Handler{
			"command": command,
			"func":    jobs.Func(sendWelcome),
			"named":   jobs.Named("welcome", jobs.Func(sendWelcome)),
			"kind":    jobs.NewKind[Welcome]("mail", "welcome").Handle(sendWelcome),
			"wrapped": jobs.Wrap(command, around("b", &log)),
			"bare":    &bare{},
		} {
			w := jobs.Wrap(h, middleware...)
			for field, pair := range map[string][2]jobs.Job{
				"handler": {{Handler: h}, {Handler: w}},
				"notify":  {{Notify: jobs.Notify{Handler: h}}, {Notify: jobs.Notify{Handler: w}}},
			} {
				if pair[0].Hash() != pair[1].Hash() {
					t.Errorf("%s in %s: another hash as %s", name, what, field)
				}
			}
			if described(h) != described(w) {
				t.Errorf("%s in %s is described as %q, want %q", name, what, described(w), described(h))
			}
			was, had := unwrap.As[jobs.Graceful](h)
			is, has := unwrap.As[jobs.Graceful](w)
			if had != has || had && was.StopGrace() != is.StopGrace() || has != (name == "command" || name == "wrapped") {
				t.Errorf("%s in %s: another grace period, %v", name, what, is)
			}
		}
	}
}

func described(h jobs.Handler) string {
	if d, ok := unwrap.As[jobs.Described](h); ok {
		return d.Describe()
	}
	return ""
}

// A handler of a program's own that says what it surrounds is taken for that.
type logged struct{ jobs.Handler }

func (l logged) Unwrap() jobs.Handler { return l.Handler }

func TestHandlersThatUnwrap(t *testing.T) {
	h := jobs.Func(sendWelcome)
	if (jobs.Job{Handler: logged{logged{h}}}).Hash() != (jobs.Job{Handler: h}).Hash() {
		t.Error("it has another hash")
	}
	if got := described(logged{h}); got != described(h) || got == "" {
		t.Errorf("it is described as %q", got)
	}
}

func TestWrapNothing(t *testing.T) {
	gone := func(jobs.Handler) jobs.Handler { return nil }
	for what, h := range map[string]jobs.Handler{
		"nothing":       jobs.Wrap(nil, around("a", nil)),
		"no function":   jobs.Wrap(jobs.Func[int](nil)),
		"to nothing":    jobs.Wrap(jobs.Func(sendWelcome), around("a", nil), gone, around("b", nil)),
		"named nothing": jobs.Named("a", nil),
	} {
		if h != nil {
			t.Errorf("%s: %#v", what, h)
		}
	}
	err := jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": logged{}}}},
		Jobs: map[string]jobs.Job{
			"j": {Handler: logged{}},
			"n": {Handler: jobs.Func(sendWelcome), Notify: jobs.Notify{Handler: logged{}, On: []jobs.Event{jobs.EventFailed}}},
		},
	}.Validate()
	if err == nil || !strings.Contains(err.Error(), "jobs.n.notify: has no handler") || !strings.Contains(err.Error(), "pools.p.kinds.k: has no handler") || !strings.Contains(err.Error(), "jobs.j: has no handler") {
		t.Error(err)
	}
}

// A whole set is wrapped, and the original is left alone.
func TestWrapASet(t *testing.T) {
	h := jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil })
	set := jobs.Set{
		Name:  "shop",
		Pools: map[string]jobs.Pool{"p": {Handler: h, Kinds: map[string]jobs.Handler{"k": h}, Notify: jobs.Notify{Handler: h}}, "bare": {}},
		Jobs:  map[string]jobs.Job{"j": {Handler: h, Notify: jobs.Notify{Handler: h}}, "of-pool": {Pool: "p"}},
	}
	var log []string
	wrapped := set.Wrap(around("a", &log))
	if err := errors.Join(wrapped.Validate(), set.Validate()); err != nil {
		t.Fatal(err)
	}
	of := func(s jobs.Set) []jobs.Handler {
		return []jobs.Handler{
			s.Pools["p"].Handler, s.Pools["p"].Kinds["k"], s.Pools["p"].Notify.Handler, s.Jobs["j"].Handler, s.Jobs["j"].Notify.Handler,
		}
	}
	for i, h := range append(of(wrapped), of(set)...) {
		log = nil
		if err := h.Run(t.Context(), jobs.Task{}, nil); err != nil {
			t.Fatal(err)
		}
		if want := i < 5; (len(log) == 2) != want {
			t.Errorf("handler %d: %q", i, log)
		}
	}
	if wrapped.Pools["bare"].Handler != nil || wrapped.Jobs["of-pool"].Handler != nil || wrapped.Name != "shop" || len(wrapped.Jobs) != 2 {
		t.Errorf("%+v", wrapped)
	}
	for name := range set.Jobs {
		if set.Jobs[name].Hash() != wrapped.Jobs[name].Hash() {
			t.Errorf("job %s has another hash", name)
		}
	}
}

func nothing(context.Context, jobs.Task, io.Writer) error { return nil }

// A function that is a handler is known by its name.
func TestHandlerFunc(t *testing.T) {
	if err := jobs.HandlerFunc(nothing).Run(t.Context(), jobs.Task{}, nil); err != nil {
		t.Error(err)
	}
	if got := jobs.HandlerFunc(nil).Describe(); got != "func ?" {
		t.Errorf("no function is described as %q", got)
	}
	if got := described(jobs.HandlerFunc(nothing)); got != "func github.com/lockstep-scheduler/lockstep/jobs_test.nothing" {
		t.Errorf("described as %q", got)
	}
}
