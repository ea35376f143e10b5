package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Report writes the progress of running tasks, each under its token. The answer has the order of reports. It says whether the row still
// belonged to the session, and the session was not dead; others are not written. A row that is pending again, or ends, has no progress
// any more. Of several for one task the last one counts. It implements ledger.Tasks.
//
// Errors: jobs.ErrUnavailable. Any other error is the database's refusal: some may have been written.
func (s replica) Report(ctx context.Context, session string, reports []ledger.Progress) ([]bool, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	ours := make([]bool, len(reports))
	// Without a transaction, as Extend, and not by the connections of that: a progress may be late, a renewal may not.
	if err := s.autocommit(ctx, "report progress", func(t *tx) error { return report(t, session, reports, ours) }); err != nil {
		return nil, err
	}
	return ours, nil
}

func report(t *tx, session string, reports []ledger.Progress, ours []bool) error {
	last := map[claimed]ledger.Progress{}
	for _, p := range reports {
		last[claimed{p.TaskID, p.Token}] = p
	}
	sorted := make([]ledger.Progress, 0, len(last))
	for _, p := range last {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b ledger.Progress) int {
		return cmp.Or(strings.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Token, b.Token))
	})
	found := map[claimed]bool{}
	for part := range slices.Chunk(sorted, sqlkit.MaxRows) {
		n, err := t.Exec("UPDATE {each}{tasks}{by_key} SET progress={text progress} WHERE "+ownedBy,
			sqlkit.Rows(part, func(p ledger.Progress) []any { return []any{p.Column(), p.TaskID, p.Token} }), session, session)
		if err != nil {
			return err
		}
		if n == int64(len(part)) { // nearly always
			for _, p := range part {
				found[claimed{p.TaskID, p.Token}] = true
			}
			continue
		}
		// A row that has the value already may not be counted.
		err = each(t.rows("SELECT id, token FROM {tasks} WHERE "+ownedBy,
			sqlkit.Rows(part, func(p ledger.Progress) []any { return []any{p.TaskID, p.Token} }), session, session),
			func(m *taskFields) { found[claimed{m.ID, m.Token}] = true })
		if err != nil {
			return err
		}
	}
	for i, p := range reports {
		ours[i] = found[claimed{p.TaskID, p.Token}]
	}
	return nil
}

// claimed names one claim of a task.
type claimed struct {
	id    string
	token int64
}
