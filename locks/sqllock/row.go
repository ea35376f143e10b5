package sqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// rowSession holds row locks in transactions, one for each batch.
type rowSession struct {
	*calls
	ttl  time.Duration
	lost chan struct{}

	mu      sync.Mutex // statements on one connection come one after the other
	over    bool
	batches []*batch
}

// batch is one connection with an open transaction and the keys that it holds.
type batch struct {
	conn *sql.Conn
	id   int64 // of the connection, at the server
	acq  string
	keys map[string]driver.Token
}

// newRowSession rounds the TTL down to seconds: that is how precise wait_timeout is.
func newRowSession(c *calls, ttl time.Duration) driver.Session {
	return &rowSession{calls: c, ttl: max(ttl.Truncate(time.Second), time.Second), lost: make(chan struct{})}
}

func (s *rowSession) ID() string            { return s.session }
func (s *rowSession) TTL() time.Duration    { return s.ttl }
func (s *rowSession) Lost() <-chan struct{} { return s.lost }

// Renew pings every connection, so that wait_timeout does not end it. One that is gone ends the
// session: what it held is free already.
func (s *rowSession) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.failed("renew", driver.ErrSessionLost)
	}
	for _, b := range s.batches {
		if err := b.conn.PingContext(ctx); err != nil {
			if ctx.Err() != nil {
				return s.failed("renew", err)
			}
			s.end(ctx)
			return s.failed("renew", fmt.Errorf("%w: %v", driver.ErrSessionLost, err))
		}
	}
	return nil
}

// end drops every connection: the server frees what is still held.
func (s *rowSession) end(ctx context.Context) {
	for _, b := range s.batches {
		b.drop()
	}
	s.batches = nil
	if !s.over {
		s.over = true
		close(s.lost)
	}
}

// drop ends a connection for good; it must not go back to the pool with its settings.
func (b *batch) drop() {
	_ = b.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = b.conn.Close()
}

// settling is how often TryAcquire looks again at keys that are neither free nor held: their holder
// has the row and has not written its name yet, or is deleting what it left.
const settling = 20

// TryAcquire locks what is free in one new transaction.
func (s *rowSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, s.failed("acquire", driver.ErrSessionLost)
	}
	results := make([]driver.Result, len(wants))
	open := map[string]int{} // keys without an answer, and where it goes
	mine := s.mine()
	for i, w := range wants {
		if b := mine[w.Key]; b != nil && b.acq == acquisition {
			results[i].Token = b.keys[w.Key]
			continue
		}
		open[w.Key] = i
	}
	for round := 0; len(open) > 0; round++ {
		rest := slices.DeleteFunc(slices.Clone(wants), func(w driver.Want) bool { _, ok := open[w.Key]; return !ok || mine[w.Key] != nil })
		if err := s.try(ctx, acquisition, rest, open, results); err != nil {
			return nil, s.failed("acquire", err)
		}
		if err := s.nameHolders(ctx, open, results); err != nil {
			return nil, s.failed("acquire", err)
		}
		if round == settling {
			for key, i := range open {
				results[i].Holder = &driver.Info{Key: key}
			}
			break
		}
		if len(open) > 0 {
			pause(ctx)
		}
	}
	return results, nil
}

// try locks what is free of wants.
func (s *rowSession) try(ctx context.Context, acquisition string, wants []driver.Want, open map[string]int, results []driver.Result) error {
	if len(wants) == 0 {
		return nil
	}
	b, err := s.lock(ctx, acquisition, wants)
	if err != nil || b == nil {
		return err
	}
	s.batches = append(s.batches, b)
	for key, token := range b.keys {
		results[open[key]].Token = token
		delete(open, key)
	}
	return nil
}

func (s *rowSession) mine() map[string]*batch {
	mine := map[string]*batch{}
	for _, b := range s.batches {
		for key := range b.keys {
			mine[key] = b
		}
	}
	return mine
}

// lock takes the free ones of wants in a transaction of their own; nil if none was free.
func (s *rowSession) lock(ctx context.Context, acquisition string, wants []driver.Want) (_ *batch, err error) {
	if err := s.makeRows(ctx, wants); err != nil {
		return nil, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	b := &batch{conn: conn, acq: acquisition, keys: map[string]driver.Token{}}
	defer func() {
		if err != nil || len(b.keys) == 0 {
			b.drop()
		}
	}()
	for _, setting := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION wait_timeout = %d, SESSION innodb_lock_wait_timeout = 1", int(s.ttl/time.Second)),
		"START TRANSACTION",
	} {
		if _, err := conn.ExecContext(ctx, setting); err != nil {
			return nil, err
		}
	}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&b.id); err != nil {
		return nil, err
	}
	free, err := s.names(ctx, conn, `SELECT name FROM {rows} WHERE namespace = ? AND name IN (`+marks(len(wants))+`)
		ORDER BY name FOR UPDATE SKIP LOCKED`, append([]any{s.namespace}, keysOf(wants)...)...) // primary key
	if err != nil || len(free) == 0 {
		return nil, err
	}
	token, err := again(ctx, func() (driver.Token, error) { return s.mint(ctx, s.db, len(free)) })
	if err != nil {
		return nil, err
	}
	var args []any
	for _, w := range wants {
		if free[w.Key] {
			b.keys[w.Key] = token
			args = append(args, s.namespace, w.Key, int64(token), s.session, acquisition, s.owner, w.Meta, b.id)
			token++
		}
	}
	// Committed on another connection, since others must see it while the transaction is open. Only
	// who holds the row's lock writes here, so the newest tenure is always the one that stands.
	_, err = s.exec(ctx, `REPLACE INTO {holders} (namespace, name, token, session_id, acquisition, owner, meta, connection, since) VALUES `+
		strings.TrimSuffix(strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, ?, {now}),`, len(b.keys)), ","), args...)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// makeRows inserts the rows that are missing. One that exists must not be touched: an insert would
// wait for the transaction that holds it.
func (s *rowSession) makeRows(ctx context.Context, wants []driver.Want) error {
	there, err := s.names(ctx, s.db, `SELECT name FROM {rows} WHERE namespace = ? AND name IN (`+marks(len(wants))+`)`,
		append([]any{s.namespace}, keysOf(wants)...)...)
	if err != nil {
		return err
	}
	var args []any
	for _, w := range wants {
		if !there[w.Key] {
			args = append(args, s.namespace, w.Key)
		}
	}
	if len(args) == 0 {
		return nil
	}
	_, err = s.exec(ctx, `{insert_ignore} {rows} (namespace, name) VALUES `+strings.TrimSuffix(strings.Repeat("(?, ?),", len(args)/2), ","), args...)
	return err
}

// nameHolders fills in who holds what was not granted, as far as they have said so.
func (s *rowSession) nameHolders(ctx context.Context, open map[string]int, results []driver.Result) error {
	if len(open) == 0 {
		return nil
	}
	args := []any{s.namespace}
	for key := range open {
		args = append(args, key)
	}
	rows, err := s.read(ctx, s.db, "{holders}", `namespace = ? AND name IN (`+marks(len(open))+`)`, args...)
	for key, row := range rows {
		results[open[key]].Holder = &row.info
		delete(open, key)
	}
	return err
}

// Release ends the transactions of batches that are given back whole, and takes the rest of the
// others again.
func (s *rowSession) Release(ctx context.Context, held []driver.Held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.batches) - 1; i >= 0; i-- {
		b := s.batches[i]
		var gone []any
		for _, h := range byKey(held) {
			if b.keys[h.Key] == h.Token && h.Token != 0 {
				gone = append(gone, h.Key)
			}
		}
		if len(gone) == 0 {
			continue
		}
		if err := s.giveBack(ctx, b, gone); err != nil {
			s.end(ctx) // the connection is in doubt: dropping it frees everything for sure
			return s.failed("release", err)
		}
		if len(b.keys) == 0 {
			b.drop()
			s.batches = slices.Delete(s.batches, i, i+1)
		}
	}
	return nil
}

// giveBack deletes the names of keys, commits, and locks what is left of the batch again.
func (s *rowSession) giveBack(ctx context.Context, b *batch, keys []any) error {
	in := `namespace = ? AND name IN (` + marks(len(keys)) + `)`
	args := append([]any{s.namespace}, keys...)
	if _, err := s.exec(ctx, `DELETE FROM {holders} WHERE session_id = ? AND `+in, append([]any{s.session}, args...)...); err != nil {
		return err
	}
	if _, err := b.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	s.tidy(ctx, args)
	for _, key := range keys {
		delete(b.keys, key.(string))
	}
	if len(b.keys) == 0 {
		return nil
	}
	return s.relock(ctx, b)
}

// tidy deletes rows that nobody has locked. It may fail: rows of free keys do no harm, and the next
// release of the key tries again.
func (s *rowSession) tidy(ctx context.Context, key []any) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return
	}
	defer tx.Rollback()
	free, err := s.names(ctx, tx, `SELECT name FROM {rows} WHERE namespace = ? AND name IN (`+marks(len(key)-1)+`)
		ORDER BY name FOR UPDATE SKIP LOCKED`, key...)
	if err != nil || len(free) == 0 {
		return
	}
	args := []any{s.namespace}
	for name := range free {
		args = append(args, name)
	}
	if _, err := tx.ExecContext(ctx, s.words.replace.Replace(`DELETE FROM {rows} WHERE namespace = ? AND name IN (`+marks(len(free))+`)`), args...); err == nil {
		_ = tx.Commit()
	}
}

// relock takes the keys of a batch again after its transaction ended, and keeps those which nobody
// had in between.
func (s *rowSession) relock(ctx context.Context, b *batch) error {
	args := []any{s.namespace}
	for key := range b.keys {
		args = append(args, key)
	}
	if _, err := b.conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	in := `namespace = ? AND name IN (` + marks(len(b.keys)) + `)`
	locked, err := s.names(ctx, b.conn, `SELECT name FROM {rows} WHERE `+in+` ORDER BY name FOR UPDATE SKIP LOCKED`, args...)
	if err != nil {
		return err
	}
	rows, err := s.read(ctx, s.db, "{holders}", in, args...)
	if err != nil {
		return err
	}
	for key, token := range b.keys {
		if !locked[key] || rows[key].info.Token != token || rows[key].info.Session != s.session {
			delete(b.keys, key)
		}
	}
	return nil
}

// Check knows what is held as long as the connections live.
func (s *rowSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := make([]bool, len(held))
	for _, b := range s.batches {
		alive := b.conn.PingContext(ctx) == nil
		for i, h := range held {
			if h.Token != 0 && b.keys[h.Key] == h.Token {
				still[i] = alive
			}
		}
	}
	return still, ctx.Err()
}

// List reads who holds what, without those whose row is free.
func (s *rowSession) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	for len(infos) < limit {
		where, args := s.page(prefix, after)
		rows, err := s.read(ctx, s.db, "{holders}", where+` ORDER BY name LIMIT ?`, append(args, limit)...)
		if err != nil {
			return nil, s.failed("list", err)
		}
		page := inOrder(rows)
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key
		taken, err := s.taken(ctx, page)
		if err != nil {
			return nil, s.failed("list", err)
		}
		infos = append(infos, taken...)
		if len(page) < limit {
			break
		}
	}
	return infos[:min(len(infos), limit)], nil
}

// taken is those of infos whose row is locked: the others' connections died.
func (s *rowSession) taken(ctx context.Context, infos []driver.Info) ([]driver.Info, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	args := []any{s.namespace}
	for _, info := range infos {
		args = append(args, info.Key)
	}
	free, err := s.names(ctx, tx, `SELECT name FROM {rows} WHERE namespace = ? AND name IN (`+marks(len(infos))+`) FOR UPDATE SKIP LOCKED`, args...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(infos, func(i driver.Info) bool { return free[i.Key] }), nil
}

// Evict kills the connection that holds key under token, and with it the holder's session.
func (s *rowSession) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	var connection int64
	err := s.db.QueryRowContext(ctx, s.words.replace.Replace(`SELECT connection FROM {holders} WHERE namespace = ? AND name = ? AND token = ?`),
		s.namespace, key, int64(token)).Scan(&connection)
	if err == sql.ErrNoRows {
		return false, nil
	} else if err != nil {
		return false, s.failed("evict", err)
	}
	held, err := s.taken(ctx, []driver.Info{{Key: key}})
	if err != nil || len(held) == 0 {
		return false, err
	}
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", connection)); err != nil {
		return false, s.failed("evict", err)
	}
	return true, nil
}

// Close gives everything back and ends the session.
func (s *rowSession) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	for _, b := range s.batches {
		var keys []any
		for key := range b.keys {
			keys = append(keys, key)
		}
		if len(keys) == 0 {
			continue
		}
		if err := s.giveBack(ctx, b, keys); err != nil {
			failed = s.failed("close", err)
		}
	}
	s.end(ctx)
	return failed
}
