package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Handler does the work of one attempt. It may also be [Described], [Identified], [Graceful] or a [Wrapper].
//
// The deadline of ctx is the attempt's timeout; ctx may be done sooner, as when the task is cancelled. Run
// must return soon after ctx is done; the cause of ctx says why and, as a [*Stop], how long
// the handler has left. What it writes to out is kept as the attempt's output, head and tail
// within a limit; out may be written to until Run returns, from one goroutine at a time.
//
// A nil error means the attempt succeeded. [Permanent] fails the task, and [Cancel] cancels it, without
// further attempts; [RetryAfter] chooses when the next one starts, [Snooze] as well and does not count the attempt, an [*ExitError] carries an exit code, a [*StatusError] a status;
// every other error fails the attempt. A panic fails the attempt only, also one in a method of the error, as that of
// a nil pointer returned as an error that is not nil. Of an error's text the first 16 KiB
// are kept; what is longer belongs into out.
type Handler interface {
	Run(ctx context.Context, t Task, out io.Writer) error
}

// Described handlers say what they do, for people. The description must not contain secrets, nor
// digests of them: a reader can try guesses against a digest. Unless the handler is [Identified], its
// description is its identity, too. A handler that surrounds another one must not repeat what that
// one says: it is a [Wrapper], or made by [Wrap].
type Described interface {
	Describe() string
}

// Identified handlers are more than they show: two with equal identities do the same, and a change of
// a secret changes the identity. It goes into the definition's hash, which only the database keeps, and
// is shown nowhere. [Named] makes one of any handler.
type Identified interface {
	Identity() string
}

// Graceful handlers say how long they may take to end once their context is done, at most; those
// that do not, or panic when asked, have the replica's own grace period. A replica that drains waits that long for them.
type Graceful interface {
	StopGrace() time.Duration
}

// Wrapper handlers surround another one. What they are not themselves, of [Described], [Identified], [Graceful] and
// the rest, the handler in them is for them: it is found as package errors finds errors.
type Wrapper interface {
	Unwrap() Handler
}

// Stop is the cancellation cause of an attempt's context. A handler that ends soon after its context
// needs no more than that; one that leaves its work time to end must heed KillBy and Kill.
type Stop struct {
	Reason string    // for people: "timeout after 30s", "cancelled", "drained", …
	KillBy time.Time // the handler must be gone by then; zero: its own grace period holds

	// Kill is closed when the handler must end at once, be it sooner than KillBy and its own grace
	// period said: what stopped it first may be followed by something that cannot wait. Nil: never.
	Kill <-chan struct{}
}

func (s *Stop) Error() string { return s.Reason }

// ExitError is a command that ended with a code other than 0.
type ExitError struct {
	Code   int    // −1: ended by a signal
	Text   string // for people
	Signal int    // that ended it; 0: none, or it is not known

	OutOfMemory bool // it was killed as it needed more memory than it may have
}

func (e *ExitError) Error() string { return e.Text }

// Permanent wraps err so that the task ends as failed, without further attempts: for what no retry can make good.
// A notification of failures is sent. It may be wrapped in turn, and counts for more than a RetryAfter beside it.
// err is for people, and may be nil.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ err error }

func (p *permanent) Error() string {
	if p.err == nil {
		return "not retried: a permanent failure"
	}
	return fmt.Sprintf("not retried: %v", p.err)
}

func (p *permanent) Unwrap() error { return p.err }

// IsPermanent reports whether err came from Permanent.
func IsPermanent(err error) bool { var p *permanent; return errors.As(err, &p) }

// Cancel wraps err so that the task ends as cancelled, without further attempts: for what need not be done any
// more. That is no failure, and no notification is sent; a failure is [Permanent]. It may be wrapped in turn, and
// counts for more than a RetryAfter or a Permanent beside it. err is for people, and may be nil.
func Cancel(err error) error { return &cancelled{err} }

type cancelled struct{ err error }

func (c *cancelled) Error() string {
	if c.err == nil {
		return "cancelled by its handler"
	}
	return fmt.Sprintf("cancelled by its handler: %v", c.err)
}

func (c *cancelled) Unwrap() error { return c.err }

// IsCancel reports whether err came from Cancel.
func IsCancel(err error) bool { var c *cancelled; return errors.As(err, &c) }

// RetryAfter wraps err so that the next attempt starts after d (≥ 0) instead of the usual backoff: for
// a service that says when to try again. The attempt counts; when the limit is reached the task fails.
// It may be wrapped in turn. err is for people, and may be nil.
func RetryAfter(d time.Duration, err error) error { return &retryAfter{max(d, 0), err} }

type retryAfter struct {
	d   time.Duration
	err error
}

func (r *retryAfter) Error() string {
	if r.err == nil {
		return fmt.Sprintf("to be tried again in %v", r.d)
	}
	return r.err.Error()
}

func (r *retryAfter) Unwrap() error { return r.err }

// Snooze puts a task off: it is pending again, and due after d (≥ 0). The attempt does not count, and is not kept: the next one has the
// same number and a larger token, what was written to out is dropped, and no retry is used up, so a handler can snooze without end.
// It is for what cannot be done yet: a file that has not come, a service that is closed at night. The task's reason is the text
// of the error, which may wrap it: fmt.Errorf("no file yet: %w", jobs.Snooze(time.Minute)).
//
// It also holds if the attempt was told to stop, unless a user cancelled the task: then it ends as cancelled. It counts for
// less than a Cancel or Permanent beside it, and for more than a RetryAfter. A start that is snoozed counts for the rate of its pool.
func Snooze(d time.Duration) error { return &snooze{max(d, 0)} }

type snooze struct{ d time.Duration }

func (s *snooze) Error() string { return fmt.Sprintf("snoozed for %v", s.d) }

// SnoozeDelay returns the delay of a Snooze in err's chain, unless a Cancel or Permanent is there, too.
func SnoozeDelay(err error) (time.Duration, bool) {
	if s, ok := errors.AsType[*snooze](err); ok && !IsCancel(err) && !IsPermanent(err) {
		return s.d, true
	}
	return 0, false
}

// RetryDelay returns the delay of a RetryAfter in err's chain.
func RetryDelay(err error) (time.Duration, bool) {
	if r, ok := errors.AsType[*retryAfter](err); ok {
		return r.d, true
	}
	return 0, false
}
