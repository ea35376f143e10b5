package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
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
func (s *server) listAudit(w http.ResponseWriter, r *http.Request, q *query) error {
	if s.audit == nil {
		return notFound("this server keeps no audit")
	}
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

const (
	refusedBurst    = 20 // refused writes of one party that have a row each, at once
	refusedInterval = 10 * time.Second
	refusedParties  = 4096             // that are remembered at most
	refusedHold     = 30 * time.Second // then what was only counted is written
	refusedKinds    = 1024             // that are counted apart
)

// refused keeps refused writes from filling the audit: beyond a bucket per party they are counted, and each kind gets
// one row with its count, within refusedHold. None is left out. The row has their object if it is the same for all.
type refused struct {
	write func(wire.AuditEntry) error

	mu      sync.Mutex
	buckets buckets[string]
	held    map[refusal]wire.AuditEntry
	timer   *time.Timer    // set while something is held
	timed   sync.WaitGroup // the timer, until it is stopped or has written
	closed  bool           // nothing is held any more
	writing sync.Mutex     // held before mu
}

// refusal is the key by which refused writes are counted together.
type refusal struct {
	party, role, action string
	object              string // of what could not be written alone: each would have had a row of its own
	status              int
}

// hold counts a refused write, unless it gets its own row.
func (f *refused) hold(party string, e wire.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.buckets.take(party, time.Now(), refusedBurst, refusedInterval, refusedParties) == 0 {
		return false
	}
	f.first(party, "", e)
	return true
}

// keep holds a write whose row could not be written, and its object; false after close.
func (f *refused) keep(party string, e wire.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.first(party, e.Object, e)
	}
	return !f.closed
}

// first counts one write.
func (f *refused) first(party, object string, e wire.AuditEntry) {
	e.Count = 1
	f.count(refusal{party, e.Role, e.Action, object, e.Status}, e)
}

// count adds e to the held counts. Fields that differ within a count are cleared.
func (f *refused) count(kind refusal, e wire.AuditEntry) {
	same, known := f.held[kind]
	if !known && kind.object != "" && len(f.held) >= refusedKinds/2 { // the other half is for other parties
		kind.object = ""
		same, known = f.held[kind]
	}
	if !known && len(f.held) >= refusedKinds {
		kind.party, kind.role, e.Who, e.Role, e.Remote = "", "", "", "", ""
		same, known = f.held[kind]
	}
	if known {
		e.Count += same.Count
		if same.Object != e.Object {
			e.Object = ""
		}
		if same.Remote != e.Remote {
			e.Remote = ""
		}
	}
	if f.held == nil {
		f.held = map[refusal]wire.AuditEntry{}
	}
	f.held[kind] = e
	if f.timer == nil {
		f.timed.Add(1)
		f.timer = time.AfterFunc(refusedHold, func() {
			defer f.timed.Done()
			f.flush(false)
		})
	}
}

// close is the last flush. Nothing is written after it.
func (f *refused) close() (left []wire.AuditEntry, err error) {
	left, err = f.flush(true)
	f.timed.Wait()
	return left, err
}

// flush writes the held counts. Those that cannot be written are returned; they stay for the next flush, unless this is
// the last.
func (f *refused) flush(last bool) (left []wire.AuditEntry, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	all := f.held
	f.held = nil
	f.closed = f.closed || last
	if f.timer != nil && f.timer.Stop() {
		f.timed.Done()
	}
	f.timer = nil
	f.mu.Unlock()
	for kind, e := range all {
		failed := f.write(e)
		if failed == nil {
			continue
		}
		left, err = append(left, e), failed
		f.mu.Lock()
		if !f.closed {
			f.count(kind, e)
		}
		f.mu.Unlock()
	}
	return left, err
}

// isRefused: the request was refused before anything was changed.
func isRefused(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}
