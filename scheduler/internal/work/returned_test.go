package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// spoiled is an error with methods that panic, unless they are left out.
type spoiled struct{ text, is, as, unwrap bool }

func (e *spoiled) Error() string {
	if e.text {
		panic("text")
	}
	return "spoiled"
}

func (e *spoiled) Is(error) bool {
	if e.is {
		panic("is")
	}
	return false
}

func (e *spoiled) As(any) bool {
	if e.as {
		panic("as")
	}
	return false
}

func (e *spoiled) Unwrap() error {
	if e.unwrap {
		panic(errors.New("unwrap"))
	}
	return nil
}

// A method of a handler's error that panics fails the attempt, and nothing else.
func TestAnErrorThatPanicsFailsItsAttempt(t *testing.T) {
	const nilPointer = "panic: runtime error: invalid memory address or nil pointer dereference: the handler returned a nil %s as its error; for success, return nil itself"
	const method = "panic: %s: a method of the *work.spoiled that the handler returned as its error panicked"
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"a nil pointer":         {(*spoiled)(nil), fmt.Sprintf(nilPointer, "*work.spoiled")},
		"a nil ExitError":       {(*jobs.ExitError)(nil), fmt.Sprintf(nilPointer, "*jobs.ExitError")},
		"its text":              {&spoiled{text: true}, fmt.Sprintf(method, "text")},
		"its Is":                {&spoiled{is: true}, fmt.Sprintf(method, "is")},
		"its As":                {&spoiled{as: true}, fmt.Sprintf(method, "as")},
		"its Unwrap":            {&spoiled{unwrap: true}, fmt.Sprintf(method, "unwrap")},
		"one that it surrounds": {fmt.Errorf("send: %w", (*jobs.ExitError)(nil)), "panic: runtime error: invalid memory address or nil pointer dereference: a method of the *fmt.wrapError that the handler returned as its error panicked"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { return c.err }))
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
				s.work.execute(context.Background(), claimOf("1"))
				got := results(s)["1"]
				if got.Verdict != ledger.Again || got.State != jobs.StateFailed || got.Error != c.want || got.Code != "panic" || got.RetryIn <= 0 {
					t.Errorf("recorded as %+v, want the error %q", got, c.want)
				}
				if out := string(got.Output); !strings.HasPrefix(out, "panic: ") || !strings.Contains(out, "goroutine ") {
					t.Errorf("the output has no stack: %q", out)
				}
			})
		})
	}
}

// A handler's error has the same meaning, with the errors that it wraps, after it was read.
func TestAnErrorThatWasReadMeansTheSame(t *testing.T) {
	for _, err := range []error{
		errors.New("failed"),
		fmt.Errorf("fork: %w", abort.ErrNoRoom),
		fmt.Errorf("late: %w", abort.ErrNotStarted),
		fmt.Errorf("helper: %w", abort.ErrLost),
		fmt.Errorf("command: %w", &jobs.ExitError{Code: 3, Text: "exit status 3"}),
		&jobs.ExitError{Code: -1, Signal: 9, OutOfMemory: true, Text: "killed at its memory limit"},
		fmt.Errorf("send: %w", jobs.Permanent(errors.New("no such address"))),
		fmt.Errorf("send: %w", jobs.Cancel(nil)),
		fmt.Errorf("send: %w", jobs.RetryAfter(time.Minute, errors.New("busy"))),
		errors.Join(jobs.Permanent(nil), jobs.RetryAfter(0, errors.New("busy")), &jobs.ExitError{Code: -1, Text: "killed"}),
	} {
		if got, want := meaning(read(err, io.Discard)), meaning(err); got != want {
			t.Errorf("%v:\n%s, want\n%s", err, got, want)
		}
	}
	if err := read(nil, io.Discard); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// meaning is all that the replica asks of a handler's error.
func meaning(err error) string {
	code := "none"
	if exit := (*jobs.ExitError)(nil); errors.As(err, &exit) {
		code = fmt.Sprint(exit.Code, exit.OutOfMemory)
	}
	delay, delayed := jobs.RetryDelay(err)
	return fmt.Sprintf("%q, no room %v, not started %v, lost %v, exit code %s, permanent %v, cancelled %v, in %v %v", err,
		errors.Is(err, abort.ErrNoRoom), errors.Is(err, abort.ErrNotStarted), errors.Is(err, abort.ErrLost), code,
		jobs.IsPermanent(err), jobs.IsCancel(err), delay, delayed)
}

// ungraceful is a handler that runs until it is told to stop, and panics when asked how long it may take to.
type ungraceful struct{ replicatest.Blocked }

func (ungraceful) StopGrace() time.Duration { panic("no idea") }

// A StopGrace that panics leaves the handler the replica's own grace period, in a drain that goes on.
func TestAStopGraceThatPanicsIsTheReplicasOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &replicatest.Lines{}
		s := replicaOn(t, replicatest.NewPicky(nil), ungraceful{})
		s.work.log = slog.New(log)
		s.work.register.run(&attempt{task: &jobs.Task{ID: "1", Pool: "p", Kind: "k"}, work: plan.Execution{Handler: ungraceful{}, Timeout: time.Hour}})
		_, end := s.work.register.attemptAt("1").begin(t.Context())
		defer end()
		if got := s.work.stopAll(time.Time{}); got != time.Second {
			t.Errorf("its grace period is %v, want the replica's own", got)
		}
		const want = "StopGrace of a handler panicked; the replica's own grace period holds task=1 job= pool=p kind=k panic=no idea"
		if got := log.Take(); len(got) != 1 || got[0] != want {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}
