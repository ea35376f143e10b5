package sqllock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// heldBy begins the statements that read holds, committed or not. The table looks empty to the server, which would read all of it.
const heldBy = `SELECT name, token, session_id, owner, meta, since FROM {holds} FORCE INDEX (by_name) WHERE `

func scanHold(scan func(dest ...any) error) (i driver.Info, err error) {
	var since int64
	err = scan(&i.Key, &i.Token, &i.Session, &i.Owner, &i.Meta, &since)
	i.Since = time.UnixMicro(since).UTC()
	return i, err
}

// holders returns who holds keys.
func (s *rowSession) holders(t *sqlkit.Tx, keys []string) (map[string]driver.Info, error) {
	found := map[string]driver.Info{}
	for part := range slices.Chunk(keys, 500) {
		list, args := sqlkit.List(part)
		err := t.Query(heldBy+`namespace = ? AND name IN `+list, append([]any{s.namespace}, args...), func(scan func(...any) error) error {
			info, err := scanHold(scan)
			found[info.Key] = info
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// holder reads on one of the session's connections who holds a key, and whether it has a row. It ends the session if the server has
// ended it: what asks for that session locks nothing, whether the key is free or not.
func (s *rowSession) holder(ctx context.Context, conn pinned, key string) (holder *driver.Info, there bool, err error) {
	alive := true
	err = s.With(ctx, conn).Query(`SELECT r.name, COALESCE(h.token, 0), COALESCE(h.session_id, ''), COALESCE(h.owner, ''), COALESCE(h.meta, ''), COALESCE(h.since, 0),
		EXISTS (SELECT 1 FROM {anchors} a WHERE a.id = ?)
		FROM {rows} r LEFT JOIN {holds} h FORCE INDEX (by_name) ON h.namespace = r.namespace AND h.name = r.name WHERE r.namespace = ? AND r.name = ?`,
		[]any{s.id, s.namespace, key}, func(scan func(...any) error) error {
			info, err := scanHold(func(dest ...any) error { return scan(append(dest, &alive)...) })
			if there = true; info.Token > 0 {
				holder = &info
			}
			return err
		})
	if err == nil && !alive {
		s.end()
		err = driver.ErrSessionEnded
	}
	return holder, there, err
}

// List reads the holds in the order of their keys. What waits is at the server, which does not tell.
func (s *rowSession) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	where, args := `namespace = ? AND name >= ? AND name > ?`, []any{s.namespace, prefix, after}
	if end := beyond(prefix); end != "" {
		where, args = where+` AND name < ?`, append(args, end)
	}
	err = s.view(ctx, func(t *sqlkit.Tx) error {
		infos = nil
		return t.Query(heldBy+where+` ORDER BY name LIMIT ?`, append(args, limit), func(scan func(...any) error) error {
			info, err := scanHold(scan)
			infos = append(infos, info)
			return err
		})
	})
	if err != nil {
		return nil, s.failed("list", err)
	}
	return infos, nil
}

// Check reports a key whose connection was closed here as not held, and reads the holds of the others. If they cannot be
// read, the others count as held until the next Check.
func (s *rowSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if s.isOver() {
		return nil, s.failed("check", driver.ErrSessionEnded)
	}
	if len(held) == 0 {
		return nil, nil
	}
	there, err := s.atServer(ctx, held)
	still := make([]bool, len(held))
	for i, h := range held {
		still[i] = s.has(h) && (err != nil || there[i])
	}
	if err == nil && slices.Contains(still, false) { // perhaps since all is over
		if ended := s.ping(ctx); ended != nil {
			return nil, s.failed("check", ended)
		}
	}
	if err != nil && (errors.Is(err, driver.ErrSessionEnded) || !slices.Contains(still, false)) {
		return nil, s.failed("check", err)
	}
	return still, nil
}

// Evict kills the connection that holds key under token. It ends this hold alone, unless the holder releases it in the same moment and
// takes another key on that connection: then that one is lost, which its next renewal says.
func (s *rowSession) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	killed, err := s.kill(ctx, key, token)
	if err != nil {
		return killed, s.failed("evict", err)
	}
	if killed {
		s.use(key)
	}
	return killed, nil
}

// killOwn ends the connections on which the server still has one of these holds for this session.
func (s *rowSession) killOwn(ctx context.Context, held []driver.Held) error {
	there, err := s.atServer(ctx, held)
	for i, h := range held {
		if err == nil && there[i] {
			_, err = s.kill(ctx, h.Key, h.Token)
		}
	}
	return err
}

// atServer tells which of these holds the server has for this session.
func (s *rowSession) atServer(ctx context.Context, held []driver.Held) ([]bool, error) {
	var rows map[string]driver.Info
	err := s.view(ctx, func(t *sqlkit.Tx) (err error) {
		rows, err = s.holders(t, keysHeld(held))
		return err
	})
	there := make([]bool, len(held))
	for i, h := range held {
		row := rows[h.Key]
		there[i] = row.Session == s.id && row.Token == h.Token
	}
	return there, err
}

// kill ends the connection that holds key under token, if one does, and returns once the key is free of it.
func (s *rowSession) kill(ctx context.Context, key string, token driver.Token) (killed bool, err error) {
	for round := 0; ; round++ { // KILL returns before the transaction has ended
		var connections map[string]bool // one, or none
		err := s.view(ctx, func(t *sqlkit.Tx) (err error) {
			connections, err = names(t, `SELECT CAST(connection AS CHAR) FROM {holds} WHERE token = ? AND namespace = ? AND name = ?`,
				int64(token), s.namespace, key)
			return err
		})
		if err != nil || len(connections) == 0 {
			return killed, err
		}
		for id := range connections {
			if _, err := s.Pool.ExecContext(ctx, "KILL CONNECTION "+id); err == nil {
				killed = true
			} else if sqlkit.MySQLNumber(err) != 1094 { // there is no such connection
				return killed, err
			}
		}
		if sqlkit.Pause(ctx, round, nap) != nil {
			return killed, ctx.Err()
		}
	}
}
