package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// problem is an error with its status and body.
type problem struct {
	status int
	wire.Problem
}

func (p *problem) Error() string { return p.Message }

func newProblem(status int, code, message string) *problem {
	return &problem{status, wire.Problem{Code: code, Message: message}}
}

func notFound(format string, args ...any) error {
	return newProblem(http.StatusNotFound, "not_found", fmt.Sprintf(format, args...))
}

// conflict: the state does not allow it.
func conflict(format string, args ...any) error {
	return newProblem(http.StatusConflict, "conflict", fmt.Sprintf(format, args...))
}

// malformed: the request cannot be parsed.
func malformed(field, format string, args ...any) error {
	return &problem{http.StatusBadRequest, wire.Problem{Code: "malformed", Message: fmt.Sprintf(format, args...), Field: field}}
}

// invalid: a value is out of range.
func invalid(field, format string, args ...any) error {
	return &problem{http.StatusUnprocessableEntity, wire.Problem{Code: "invalid", Message: fmt.Sprintf(format, args...), Field: field}}
}

func tooLarge(field, format string, args ...any) error {
	return &problem{http.StatusRequestEntityTooLarge, wire.Problem{Code: "too_large", Message: fmt.Sprintf(format, args...), Field: field}}
}

// problemOf converts a backend's error. An invalid read is malformed, since all it has is its query; an invalid write
// is invalid.
func problemOf(r *http.Request, err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, jobs.ErrNotFound):
		return newProblem(http.StatusNotFound, "not_found", explain(err))
	case errors.Is(err, jobs.ErrConflict):
		p := newProblem(http.StatusConflict, "conflict", explain(err))
		if lost, ok := errors.AsType[*jobs.LostError](err); ok {
			p.Force = lost.Force
		}
		return p
	case errors.Is(err, jobs.ErrInvalid) && r.Method != http.MethodPost:
		return newProblem(http.StatusBadRequest, "malformed", explain(err))
	case errors.Is(err, jobs.ErrInvalid):
		return newProblem(http.StatusUnprocessableEntity, "invalid", explain(err))
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return newProblem(http.StatusServiceUnavailable, "unavailable", explain(err))
	}
	return nil
}

// Explained errors have a message for the client, without the names of operations. Those of a store are such errors.
type Explained interface {
	error
	Explain() string
}

func explain(err error) string {
	if e, ok := errors.AsType[Explained](err); ok {
		return e.Explain()
	}
	return err.Error()
}

// fail sends err in the format of all errors.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r, err)
	if p == nil {
		s.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		p = newProblem(http.StatusInternalServerError, "internal", "internal error; see the log of this replica")
	}
	_ = reply(w, p.status, wire.Refusal{Error: p.Problem})
}

// quote formats foreign text for a message.
func quote(s string) string { return clip.Quoted(s, 80) }
