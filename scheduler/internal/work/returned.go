package work

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// returned is what the error of a handler says, read once. The error's own methods are the handler's code: they may
// panic, and are not called again.
type returned struct {
	text string
	is   []error // sentinels of this package, or of package jobs
}

func (r *returned) Error() string { return r.text }

func (r *returned) Unwrap() []error { return r.is }

// errPanic ends an attempt whose handler panicked.
var errPanic = errors.New("the handler panicked")

// panicked is errPanic with the text that is known.
type panicked string

func (p panicked) Error() string { return string(p) }

func (p panicked) Is(target error) bool { return target == errPanic }

// read makes an error with the same text and the same meaning from the error that a handler returned. If a method of
// that error panics, as those of a nil pointer do, the panic is the error, and the stack is in the output.
func read(err error, out io.Writer) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			safe = unreadable(err, p)
			fmt.Fprintf(out, "panic: %v\n\n%s", p, debug.Stack())
		}
	}()
	r := &returned{text: err.Error()}
	for _, meant := range []error{abort.ErrNoRoom, abort.ErrNotStarted, abort.ErrLost} {
		if errors.Is(err, meant) {
			r.is = append(r.is, meant)
		}
	}
	if exit := (*jobs.ExitError)(nil); errors.As(err, &exit) {
		r.is = append(r.is, &jobs.ExitError{Code: exit.Code, Signal: exit.Signal, OutOfMemory: exit.OutOfMemory})
	}
	if status := (*jobs.StatusError)(nil); errors.As(err, &status) {
		r.is = append(r.is, &jobs.StatusError{Status: status.Status, NoAnswer: status.NoAnswer})
	}
	if jobs.IsCancel(err) {
		r.is = append(r.is, jobs.Cancel(nil))
	}
	if jobs.IsPermanent(err) {
		r.is = append(r.is, jobs.Permanent(nil))
	}
	if delay, ok := jobs.RetryDelay(err); ok {
		r.is = append(r.is, jobs.RetryAfter(delay, nil))
	}
	if delay, ok := jobs.SnoozeDelay(err); ok {
		r.is = append(r.is, jobs.Snooze(delay))
	}
	return r
}

// unreadable is the error of an attempt whose error panicked with p.
func unreadable(err error, p any) error {
	if nilcheck.IsNil(err) {
		return panicked(fmt.Sprintf("panic: %v: the handler returned a nil %T as its error; for success, return nil itself", p, err))
	}
	return panicked(fmt.Sprintf("panic: %v: a method of the %T that the handler returned as its error panicked", p, err))
}
