package sqllock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// look returns the holders of wants, and inserts rows for the others, to be locked.
func (s *rowSession) look(ctx context.Context, wants []driver.Want) (map[string]holding, error) {
	keys := keysOf(wants)
	var rows map[string]holding
	err := s.view(ctx, func(t *sqlkit.Tx) (err error) {
		if rows, err = s.read(t, keys); err != nil || len(rows) == len(wants) {
			return err
		}
		// Rows are inserted by the session that has locked the mark. So a row that is missing now cannot be
		// locked by a holder when it is inserted here, and the insert does not wait for a holder. It waits for
		// an uncommitted deletion: see Release, and New about sweep.
		if _, err = names(t, `SELECT namespace FROM {marks} WHERE namespace = ? FOR UPDATE`, s.namespace); err != nil {
			return err
		}
		if rows, err = s.read(t, keys); err != nil {
			return err
		}
		var free [][]any
		for _, w := range without(wants, rows) {
			free = append(free, []any{s.namespace, w.Key, 0, "", "", "", "", 0, 0})
		}
		_, err = t.InsertNew(`{rows} (namespace, name, token, session_id, acquisition, owner, meta, since, connection)`, free)
		return err
	})
	maps.DeleteFunc(rows, func(_ string, row holding) bool { return !row.live() })
	return rows, err
}

// sweep deletes rows that are not locked, which closed connections leave. It does not wait, and what it locks and deletes it
// finds by primary key.
func (s *rowSession) sweep(ctx context.Context) error {
	return s.Tx(ctx, func(t *sqlkit.Tx) error {
		free, err := names(t, `SELECT name FROM {rows} WHERE namespace = ? ORDER BY name LIMIT 500 FOR UPDATE SKIP LOCKED`, s.namespace)
		if err != nil || len(free) == 0 {
			return err
		}
		// The list is read first, and each row found by its primary key: with IN the server may walk through the table, and
		// would wait for holders.
		args := make([]any, 0, len(free)+1)
		for _, name := range slices.Sorted(maps.Keys(free)) {
			args = append(args, name)
		}
		list := `SELECT ? AS name` + strings.Repeat(` UNION ALL SELECT ?`, len(free)-1)
		_, err = t.Exec(`DELETE t FROM (`+list+`) AS free STRAIGHT_JOIN {rows} AS t ON t.namespace = ? AND t.name = free.name`,
			append(args, s.namespace)...)
		return err
	})
}

// Check reports a key whose connection was closed here as not held, and reads the rows of the others. If they
// cannot be read, the others count as held until the next Check.
func (s *rowSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if s.isOver() {
		return nil, s.failed("check", driver.ErrSessionEnded)
	}
	still, err := s.check(ctx, held, func(ctx context.Context) error {
		if _, err := s.Renew(ctx, nil); err != nil {
			return fmt.Errorf("sqllock: check: %w", err)
		}
		return nil
	})
	if err != nil {
		still = slices.Repeat([]bool{true}, len(held))
	}
	for i, h := range held {
		still[i] = still[i] && s.has(h)
	}
	if err != nil && (errors.Is(err, driver.ErrSessionEnded) || !slices.Contains(still, false)) {
		return nil, err
	}
	return still, nil
}

// Evict kills the connection that holds key under token, which ends this hold alone.
func (s *rowSession) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	killed := false
	for round := 0; ; round++ { // KILL returns before the transaction has ended
		var connections map[string]bool // one, or none
		err := s.view(ctx, func(t *sqlkit.Tx) (err error) {
			connections, err = names(t, `SELECT CAST(connection AS CHAR) FROM {rows} WHERE namespace = ? AND name = ? AND token = ?`,
				s.namespace, key, int64(token))
			return err
		})
		if err != nil {
			return killed, s.failed("evict", err)
		}
		if len(connections) == 0 {
			break
		}
		for id := range connections {
			if _, err := s.Pool.ExecContext(ctx, "KILL CONNECTION "+id); err == nil {
				killed = true
			} else if sqlkit.MySQLNumber(err) != 1094 { // there is no such connection
				return killed, s.failed("evict", err)
			}
		}
		if sqlkit.Pause(ctx, round, nap) != nil {
			return killed, s.failed("evict", ctx.Err())
		}
	}
	if killed {
		_ = s.sweep(ctx) // rows that remain do no harm
	}
	return killed, nil
}
