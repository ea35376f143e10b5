package store

import (
	"context"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Extend moves may_run_until of running tasks, each under its token. The answer has the order of moves. It says whether
// the row still belonged to the session, and the session was not dead: a task of a dead one may be about to start
// elsewhere. A time before that of the row is stale and moves nothing. It implements ledger.Tasks.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Extend(ctx context.Context, session string, moves []ledger.Extension) ([]bool, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	ours := make([]bool, len(moves))
	// Without a transaction: no statement can undo what another one did, and a row of another or a dead
	// session stays so.
	if err := s.keep(ctx, "extend", func(t *tx) error { return extend(t, session, moves, ours) }); err != nil {
		return nil, err
	}
	return ours, nil
}

// ownedBy is the condition that running tasks belong to a session, under their tokens, and that the session is not dead. It has
// the session as a parameter twice.
//
// Index: primary keys of tasks and sessions.
const ownedBy = "session_id=? AND EXISTS (SELECT 1 FROM {sessions} s WHERE s.id=? AND s.dead=0) AND state+0=2 AND {in name id, int token}"

func extend(t *tx, session string, moves []ledger.Extension, ours []bool) error {
	type pair struct {
		id    string
		token int64
	}
	found := map[pair]bool{}
	sorted := slices.SortedFunc(slices.Values(moves), func(a, b ledger.Extension) int { return strings.Compare(a.TaskID, b.TaskID) })
	for part := range slices.Chunk(sorted, sqlkit.MaxRows) {
		_, err := t.Exec("UPDATE {each}{tasks}{by_key} SET may_run_until={int until} WHERE may_run_until<{int until} AND "+ownedBy,
			sqlkit.Rows(part, func(e ledger.Extension) []any { return []any{micros(e.Until), e.TaskID, e.Token} }), session, session)
		if err != nil {
			return err
		}
		// Rows affected are not enough: a row that has the value already is not counted.
		err = each(t.rows("SELECT id, token FROM {tasks} WHERE "+ownedBy,
			sqlkit.Rows(part, func(e ledger.Extension) []any { return []any{e.TaskID, e.Token} }), session, session),
			func(m *taskFields) { found[pair{m.ID, m.Token}] = true })
		if err != nil {
			return err
		}
	}
	for i, e := range moves {
		ours[i] = found[pair{e.TaskID, e.Token}]
	}
	return nil
}
