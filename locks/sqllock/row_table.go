package sqllock

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// The row of a key stays when the key is released, so that the next holder only locks it. It is deleted once the key has been
// idle for a while, by the session that has used it; the rows that dead sessions leave, by the next session that is opened.

// create inserts rows for keys that have none, to be locked.
func (s *rowSession) create(ctx context.Context, keys []string) error {
	s.use(keys...)
	return s.view(ctx, func(t *sqlkit.Tx) error {
		missing, err := s.missing(t, keys)
		if err != nil || len(missing) == 0 { // another session was faster
			return err
		}
		// Rows are inserted by the session that has locked the mark. So a row that is missing then cannot be locked by a holder
		// when it is inserted here, and the insert does not wait for a holder. It waits for an uncommitted deletion: see clear.
		if _, err := names(t, `SELECT namespace FROM {marks} WHERE namespace = ? FOR UPDATE`, s.namespace); err != nil {
			return err
		}
		if missing, err = s.missing(t, keys); err != nil {
			return err
		}
		_, err = t.InsertNew(`{rows} (namespace, name)`, missing)
		return err
	})
}

// missing is the rows of those keys that have none, committed or not.
func (s *rowSession) missing(t *sqlkit.Tx, keys []string) (rows [][]any, err error) {
	list, args := sqlkit.List(keys)
	there, err := names(t, `SELECT name FROM {rows} WHERE namespace = ? AND name IN `+list, append([]any{s.namespace}, args...)...)
	for _, key := range keys {
		if !there[key] {
			rows = append(rows, []any{s.namespace, key})
		}
	}
	return rows, err
}

// use notes that the rows of keys may be idle from now on.
func (s *rowSession) use(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		s.idle[key] = now
	}
}

// used takes out the keys that this session has used, and not within the last rest, and neither holds nor wants. With mu held.
func (s *rowSession) used(rest time.Duration) (keys []string) {
	wanted := map[string]bool{}
	for place := range s.claims {
		wanted[place.Key] = true
	}
	for key, at := range s.idle {
		if !wanted[key] && time.Since(at) >= rest {
			keys = append(keys, key)
			delete(s.idle, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// idleFor is how long the row of a free key stays at least, so that a key in frequent use keeps it.
const idleFor = 5 * time.Second

// tidy deletes the rows of keys that have been idle for a while, in the background.
func (s *rowSession) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.tidying != nil {
		return
	}
	keys := s.used(idleFor)
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
	s.tidying = cancel
	s.waiting.Go(func() {
		defer cancel()
		if s.clear(ctx, keys) != nil {
			s.use(keys...)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tidying = nil
	})
}

// clear deletes those rows of keys that are not locked, on one of the session's connections. Others wait for an uncommitted
// deletion, so before that the connection gets the settings of one that the server ends soon, however long the ttl is.
func (s *rowSession) clear(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	conn, used, err := s.lend(ctx)
	for ; err == nil; conn, used, err = s.lend(ctx) {
		if err = run(ctx, conn, sessionSettings); err == nil {
			break
		}
		if conn.drop(); !used {
			break
		}
	}
	if err != nil {
		return err
	}
	defer conn.drop()
	for part := range slices.Chunk(keys, 500) {
		t := s.With(ctx, conn)
		list, args := listed(part)
		free, err := names(t, `SELECT t.name FROM (`+list+`) AS used STRAIGHT_JOIN {rows} AS t ON t.namespace = ? AND t.name = used.name
			FOR UPDATE SKIP LOCKED`, append(args, s.namespace)...)
		if err == nil {
			err = s.remove(t, free)
		}
		if err == nil {
			err = run(ctx, conn, "COMMIT")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes rows that are not locked, which closed connections leave. It does not wait, and what it locks and deletes it
// finds by primary key.
func (s *rowSession) sweep(ctx context.Context) error {
	return s.Tx(ctx, func(t *sqlkit.Tx) error {
		free, err := names(t, `SELECT name FROM {rows} WHERE namespace = ? ORDER BY name LIMIT 500 FOR UPDATE SKIP LOCKED`, s.namespace)
		if err != nil {
			return err
		}
		return s.remove(t, free)
	})
}

// remove deletes rows that are locked. The list is read first, and each row found by its primary key: with IN the server may walk
// through the table, and would wait for holders.
func (s *rowSession) remove(t *sqlkit.Tx, locked map[string]bool) error {
	if len(locked) == 0 {
		return nil
	}
	list, args := listed(slices.Sorted(maps.Keys(locked)))
	_, err := t.Exec(`DELETE t FROM (`+list+`) AS free STRAIGHT_JOIN {rows} AS t ON t.namespace = ? AND t.name = free.name`, append(args, s.namespace)...)
	return err
}

// listed is a table of names, and its parameters.
func listed(keys []string) (table string, args []any) {
	for _, key := range keys {
		args = append(args, key)
	}
	return `SELECT ? AS name` + strings.Repeat(` UNION ALL SELECT ?`, len(keys)-1), args
}
