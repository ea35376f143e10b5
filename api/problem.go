package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// problem is an error with its place in the API.
type problem struct {
	status  int
	code    string
	message string
	field   string // the key or parameter that is wrong; may be empty
	force   string // what forces a run over lost attempts that are in its way; may be empty
}

func (p *problem) Error() string { return p.message }

func notFound(format string, args ...any) error {
	return &problem{status: http.StatusNotFound, code: "not_found", message: fmt.Sprintf(format, args...)}
}

// conflict: the thing is in a state that does not allow it.
func conflict(format string, args ...any) error {
	return &problem{status: http.StatusConflict, code: "conflict", message: fmt.Sprintf(format, args...)}
}

// malformed: the request cannot be understood.
func malformed(field, format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, code: "malformed", message: fmt.Sprintf(format, args...), field: field}
}

// invalid: the request is understood, and a value is out of range.
func invalid(field, format string, args ...any) error {
	return &problem{status: http.StatusUnprocessableEntity, code: "invalid", message: fmt.Sprintf(format, args...), field: field}
}

func tooLarge(field, format string, args ...any) error {
	return &problem{status: http.StatusRequestEntityTooLarge, code: "too_large", message: fmt.Sprintf(format, args...), field: field}
}

// problemOf finds the place of a backend's error. A read is refused as malformed where a write is
// refused as invalid: all that a reader can get wrong is its query.
func problemOf(r *http.Request, err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, jobs.ErrNotFound):
		return &problem{status: http.StatusNotFound, code: "not_found", message: explain(err)}
	case errors.Is(err, jobs.ErrConflict):
		p := &problem{status: http.StatusConflict, code: "conflict", message: explain(err)}
		if lost, ok := errors.AsType[*jobs.LostError](err); ok {
			p.force = lost.Force
		}
		return p
	case errors.Is(err, jobs.ErrInvalid) && r.Method != http.MethodPost:
		return &problem{status: http.StatusBadRequest, code: "malformed", message: explain(err)}
	case errors.Is(err, jobs.ErrInvalid):
		return &problem{status: http.StatusUnprocessableEntity, code: "invalid", message: explain(err)}
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &problem{status: http.StatusServiceUnavailable, code: "unavailable", message: explain(err)}
	}
	return nil
}

// explained errors say what people should read, without the operations that they went through.
type explained interface {
	error
	Explain() string
}

func explain(err error) string {
	if e, ok := errors.AsType[explained](err); ok {
		return e.Explain()
	}
	return err.Error()
}

// fail answers err in the one shape that errors have.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r, err)
	if p == nil {
		s.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		p = &problem{status: http.StatusInternalServerError, code: "internal", message: "something went wrong here; the log of this replica says what"}
	}
	body := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
		Force   string `json:"force,omitempty"`
	}{p.code, p.message, p.field, p.force}
	reply(w, p.status, map[string]any{"error": body})
}

// quote shows foreign text, shortened, without letting it be more than text.
func quote(s string) string {
	if short := clip(s, 80); short != s {
		s = short + "…"
	}
	return strconv.Quote(s)
}

// clip is the first bytes of s, at most so many, that cut no rune in two.
func clip(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes]
}
