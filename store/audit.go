package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// AddAudit adds an entry to the audit, at the database's time. Texts that are too long for their
// columns are cut. It implements the API's Audit.
//
// Errors: jobs.ErrUnavailable.
func (s *Store) AddAudit(ctx context.Context, e ledger.AuditEntry) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	return s.sure(ctx, "record in the audit", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		// To write the same id again changes nothing.
		_, err = t.Exec("{insert_ignore} {audit} (id, at, who, role, remote, action, object, status, task_id, tasks, repeats) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
			id.String(), micros(now), clip(e.Who, 128), clip(e.Role, 16), clip(e.Remote, 64), clip(e.Action, 64), clip(e.Object, 128), e.Status,
			clip(e.TaskID, 36), e.Tasks, max(e.Count, 1))
		return err
	})
}

// AuditEntries lists the audit, the latest first, and returns the cursor of the next page, "" after the
// last.
//
// Errors: jobs.ErrInvalid for a limit or cursor that is none, jobs.ErrUnavailable.
func (s *Store) AuditEntries(ctx context.Context, p ledger.Page) (entries []ledger.AuditEntry, next string, err error) {
	limit, err := pageLimit(p.Limit)
	if err != nil {
		return nil, "", err
	}
	err = s.view(ctx, "read the audit", func(t *tx) (err error) {
		entries, err = t.auditPage(p.Cursor, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(entries) > limit {
		entries = entries[:limit]
		last := entries[limit-1]
		next = auditCursor(micros(last.At), last.ID)
	}
	return entries, next, nil
}

func auditCursor(at int64, id string) string { return cursor("audit", strconv.FormatInt(at, 10), id) }

// Index: audit_at.
func (t *tx) auditPage(cursor string, n int) (entries []ledger.AuditEntry, err error) {
	w := &where{}
	after, err := readCursor(cursor, "audit", 2)
	if err != nil {
		return nil, err
	}
	if after != nil {
		at, err := strconv.ParseInt(after[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cursor: %w: %.40q is not a cursor of this list", jobs.ErrInvalid, cursor)
		}
		w.and(`at <= ? AND NOT (at = ? AND id >= ?)`, at, at, after[1])
	}
	err = t.Query(`SELECT id, at, who, role, remote, action, object, status, task_id, tasks, repeats FROM {audit}{index}{audit}_at{end}`+w.text()+` ORDER BY at DESC, id DESC LIMIT ?`,
		append(w.args, n), func(scan func(...any) error) error {
			var e ledger.AuditEntry
			var at int64
			err := scan(&e.ID, &at, &e.Who, &e.Role, &e.Remote, &e.Action, &e.Object, &e.Status, &e.TaskID, &e.Tasks, &e.Count)
			if e.Count == 1 {
				e.Count = 0
			}
			e.At = fromMicros(at)
			entries = append(entries, e)
			return err
		})
	return entries, err
}

// Index: audit_at, then the primary key.
func sweepAudit(t *tx, before int64, limit int) (int, error) {
	ids, err := t.strings("SELECT id FROM {audit} WHERE at<? ORDER BY at LIMIT ?", before, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	_, err = t.Exec("{delete} {audit} AS t{by_key} WHERE id IN ("+sqlkit.Marks(len(ids))+")", sqlkit.Texts(ids)...)
	return len(ids), err
}
