package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// reply sends v as JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(w, status, append(body, '\n'))
	return nil
}

// replyList sends a page. The page ends early if it would be longer than paging.Bytes, where cursor returns the cursor
// of an item; a nil cursor is for lists that the store bounds.
func replyList[T any](w http.ResponseWriter, status int, items []T, next string, cursor func(T) string) error {
	page := wire.List[json.RawMessage]{Items: make([]json.RawMessage, 0, len(items)), Next: next}
	size := 0
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if size += len(line); i > 0 && cursor != nil && size > paging.Bytes {
			page.Next = cursor(items[i-1])
			break
		}
		page.Items = append(page.Items, line)
	}
	return reply(w, status, page)
}

const (
	answerTime = 20 * time.Second // for a client to take an answer
	smallBytes = 16 << 10         // the system takes these, whether the client does or not
)

// send sends the whole body, as JSON unless a header says otherwise. A client that does not read it is disconnected.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json; charset=utf-8")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if len(body) <= smallBytes {
		w.WriteHeader(status)
		_, _ = w.Write(body)
		return
	}
	stream := http.NewResponseController(w)
	bounded := stream.SetWriteDeadline(time.Now().Add(answerTime)) == nil
	w.WriteHeader(status)
	_, _ = w.Write(body)
	if bounded && stream.Flush() == nil {
		_ = stream.SetWriteDeadline(time.Time{}) // of what follows on the connection
	}
}

// replyPage sends the page of a list of up to limit rows after a key. The rows are sorted by distinct keys.
func replyPage[T any](w http.ResponseWriter, list string, rows []T, key func(T) string, after string, limit int) error {
	at, found := slices.BinarySearchFunc(rows, after, func(row T, after string) int { return strings.Compare(key(row), after) })
	if found {
		at++
	}
	cursor := func(row T) string { return paging.Cursor(list, key(row)) }
	next := ""
	if rows = rows[at:]; len(rows) > limit {
		rows = rows[:limit]
		next = cursor(rows[limit-1])
	}
	return replyList(w, http.StatusOK, rows, next, cursor)
}

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
	case refusedWorker(err) != nil:
		return refusedWorker(err)
	case errors.Is(err, jobs.ErrNotFound):
		return newProblem(http.StatusNotFound, "not_found", explain(err))
	case errors.Is(err, jobs.ErrConflict):
		p := newProblem(http.StatusConflict, "conflict", explain(err))
		if lost, ok := errors.AsType[*jobs.LostError](err); ok {
			p.Force = lost.Force
		}
		return p
	case errors.Is(err, jobs.ErrInvalid) && !isWrite(r):
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
