package store

import (
	"context"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
)

// AddAudit adds an entry to the audit, at the database's time. Texts that are too long for their
// columns are cut. It implements ledger.Audit.
//
// Errors: jobs.ErrUnavailable.
func (s views) AddAudit(ctx context.Context, e wire.AuditEntry) error {
	id := newID()
	return s.sure(ctx, "record in the audit", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		// To write the same id again changes nothing.
		_, err = t.InsertNew("{audit} (id, at, who, role, remote, action, object, status, task_id, tasks, repeats)", [][]any{{
			id, micros(now), clip.Text(e.Who, 128), clip.Text(e.Role, 16), clip.Text(e.Remote, 64), clip.Text(e.Action, 64),
			clip.Text(e.Object, 128), e.Status, clip.Text(e.TaskID, 36), e.Tasks, max(e.Count, 1),
		}})
		return err
	})
}

// AuditEntries lists the audit, the latest first, and returns the cursor of the next page, "" after the
// last.
//
// Errors: jobs.ErrInvalid for a limit or cursor that is none, jobs.ErrUnavailable.
func (s views) AuditEntries(ctx context.Context, p wire.Page) (entries []wire.AuditEntry, next string, err error) {
	return page(ctx, s.Store, "read the audit", p.Limit,
		func(t *tx, n int) ([]wire.AuditEntry, error) { return t.auditPage(p.Cursor, n) },
		func(last wire.AuditEntry) string { return auditCursor(micros(last.At), last.ID) })
}

func auditCursor(at int64, id string) string {
	return paging.Cursor("audit", strconv.FormatInt(at, 10), id)
}

// Index: audit_at.
func (t *tx) auditPage(cursor string, n int) ([]wire.AuditEntry, error) {
	q := table[auditModel](t).Table("{audit} {index}{audit}_at{end}")
	after, err := readCursor(cursor, "audit", 2)
	if err != nil {
		return nil, err
	}
	if after != nil {
		at, err := strconv.ParseInt(after[0], 10, 64)
		if err != nil {
			return nil, notOfList(cursor)
		}
		q = q.Where("at <= ?", at).Where("NOT (at = ? AND id >= ?)", at, after[1])
	}
	return list(rowsOf(q.Order("at DESC, id DESC").Limit(n)), (*auditModel).entry)
}
