package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// auditTimeout bounds the write of an audit row.
const auditTimeout = 2 * time.Second

// auditing writes a row before the response of a write: a client that has the response can read the row. Of many
// refused writes only the number is stored, within half a minute. A row that cannot be written is logged; that of a
// refusal, or of a response without the store, is written later.
type auditing struct {
	http.ResponseWriter
	server  *server
	request *http.Request
	entry   wire.AuditEntry // without its status
	done    bool
}

func (s *server) auditing(w http.ResponseWriter, r *http.Request, route string) *auditing {
	who := callerOf(r)
	entry := wire.AuditEntry{
		Who: who.Name, Action: r.Method + " " + strings.TrimPrefix(route, "/api/v1"), Object: r.PathValue("name") + r.PathValue("id"),
	}
	if s.access != nil {
		entry.Role = string(who.Role)
	}
	if who.from.IsValid() {
		entry.Remote = who.from.String()
	}
	return &auditing{ResponseWriter: w, server: s, request: r, entry: entry}
}

func (w *auditing) WriteHeader(status int) {
	w.end(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *auditing) Write(text []byte) (int, error) {
	w.end(http.StatusOK)
	return w.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (w *auditing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end adds the row, once, also if the client has gone.
func (w *auditing) end(status int) {
	if w.done {
		return
	}
	w.done, w.entry.Status = true, status
	if isRefused(status) && w.server.refused.hold(w.server.party(w.request), w.entry) {
		return
	}
	if err := w.server.record(w.entry); err != nil {
		if (isRefused(status) || status == http.StatusServiceUnavailable) && w.server.refused.keep(w.server.party(w.request), w.entry) {
			return
		}
		w.server.unaudited(w.request.Context(), w.entry, err)
	}
}

func (s *server) record(e wire.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	return s.audit.AddAudit(ctx, e)
}

// unaudited logs an entry that could not be written.
func (s *server) unaudited(ctx context.Context, e wire.AuditEntry, err error) {
	s.log.ErrorContext(ctx, "audit entry not written", "who", e.Who, "role", e.Role, "remote", e.Remote,
		"action", e.Action, "object", e.Object, "status", e.Status, "task_id", e.TaskID, "tasks", e.Tasks, "count", max(e.Count, 1), "error", err)
}

// made adds the tasks of a request to its audit row.
func made(w http.ResponseWriter, first string, n int) {
	if a, ok := w.(*auditing); ok {
		a.entry.TaskID, a.entry.Tasks = first, n
	}
}

// listAudit lists the audit, the latest entry first.
func (s *server) listAudit(w http.ResponseWriter, r *http.Request) error {
	if s.audit == nil {
		return notFound("this server keeps no audit")
	}
	q := readQuery(r, "limit", "cursor")
	page := q.page()
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.audit.AuditEntries(r.Context(), page)
	if err != nil {
		return err
	}
	return replyList(w, http.StatusOK, rows, next, nil)
}
