package sqllock

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// TryAcquire locks the rows of free keys, each in a transaction of its own, and reads the holders of the others. A key whose
// row is missing gets one, and a key that was locked by one that has not written its name yet is tried again.
//
//	try each ──▶ all granted or held ──▶ results
//	 │ rows are missing, or holders nameless: insert rows, wait
//	 └───────◀──────────┘   at most rounds times
//
// A lost answer is an error: what was asked again might find the key held by the request before it. After an error the session holds nothing that
// it did not hold before, once the server has seen which connections are gone.
func (s *rowSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	results := make([]driver.Result, len(wants))
	var asked []*claim // for which this call asks
	var open []int     // the wants that are not decided
	claims := make([]*claim, len(wants))
	for i, w := range wants {
		c, there, err := s.begin(ctx, acquisition, w)
		switch {
		case errors.Is(err, driver.ErrAbandoned):
			results[i].Err = err
		case err != nil:
			s.undo(asked)
			return nil, s.failed("acquire", err)
		case c == nil:
			results[i] = there
		default:
			asked, open, claims[i] = append(asked, c), append(open, i), c
		}
	}
	for round := 0; len(open) > 0 && round < rounds; round++ {
		var err error
		if round > 0 {
			missing := make([]string, len(open))
			for n, i := range open {
				missing[n] = wants[i].Key
			}
			if err = s.create(ctx, missing); err == nil && round > 1 {
				err = sqlkit.Pause(ctx, round, nap)
			}
		}
		if err == nil {
			err = errors.Join(calls.Each(len(open), mostTries, func(n int) (err error) {
				results[open[n]], err = s.try(ctx, claims[open[n]])
				return err
			})...)
		}
		if err != nil {
			switch {
			case s.undo(asked) || slices.ContainsFunc(asked, func(c *claim) bool { return c.unsure }):
				return nil, s.unknown("acquire", unsettled(err))
			case round > 0 || slices.ContainsFunc(asked, func(c *claim) bool { return c.sent }):
				return nil, s.unknown("acquire", err)
			}
			return nil, s.failed("acquire", err)
		}
		open = slices.DeleteFunc(open, func(i int) bool { return results[i] != (driver.Result{}) })
	}
	for _, i := range open { // other sessions held it for a moment each time
		results[i].Holder = &driver.Info{Key: wants[i].Key}
	}
	for i, c := range claims {
		if c != nil && results[i].Token == 0 {
			s.giveUp(c)
		}
	}
	return results, nil
}

// undo gives up what a call has asked for, and reports whether something was granted.
func (s *rowSession) undo(asked []*claim) (granted bool) {
	for _, c := range asked {
		if !s.finished(c) {
			s.giveUp(c)
			continue
		}
		granted = true
		s.mu.Lock()
		s.drop(c)
		s.mu.Unlock()
		c.conn.drop()
	}
	return granted
}

// finished reports whether a claim was granted.
func (s *rowSession) finished(c *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.token > 0
}

// try tries once to lock the row of a claim: granted, busy with its holder, or the zero Result.
func (s *rowSession) try(ctx context.Context, c *claim) (r driver.Result, err error) {
	select {
	case s.tries <- struct{}{}:
		defer func() { <-s.tries }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	conn, token, err := s.lockNow(ctx, c)
	if err != nil || token > 0 {
		return driver.Result{Token: token}, err
	}
	if r.Holder, _, err = s.holder(ctx, conn, c.Key); err == nil {
		err = run(ctx, conn, "ROLLBACK")
	}
	if err != nil {
		conn.drop()
		return driver.Result{}, err
	}
	s.giveBack(conn)
	if lost, err := s.endLost(ctx, c, r.Holder); lost || err != nil {
		return driver.Result{}, err
	}
	return r, nil
}

// lockNow locks the row of a claim, if it is free, and makes it one that is held. Else it returns the connection, which the
// caller gives back or drops.
func (s *rowSession) lockNow(ctx context.Context, c *claim) (conn pinned, token driver.Token, err error) {
	for {
		var used bool
		if conn, used, err = s.lend(ctx); err != nil {
			return pinned{}, 0, err
		}
		token, err = s.lock(ctx, conn, c, lockNow)
		switch {
		case err == nil && token > 0:
			if err = s.hold(ctx, c, conn, token); err != nil {
				conn.drop()
				return pinned{}, 0, err
			}
			return conn, token, nil
		case err == nil, s.Fault(ctx, err) == sqlkit.FaultConflict:
			return conn, 0, nil
		}
		conn.drop()
		if !errors.Is(err, sqldriver.ErrBadConn) { // with that one nothing was sent
			c.unsure = true
			return pinned{}, 0, err
		}
		if !used {
			return pinned{}, 0, err
		}
	}
}

// unsettled is err without what it says of the session and of the acquisition, if that is not all: a key may still be held for them.
func unsettled(err error) error {
	if errors.Is(err, driver.ErrSessionEnded) || errors.Is(err, driver.ErrAbandoned) {
		return errors.New(err.Error())
	}
	return err
}

// endLost reports whether a hold of the session is one of the same acquisition on a connection that was lost with its answer, or dropped.
// It ends that connection, which the server may not have seen yet.
func (s *rowSession) endLost(ctx context.Context, c *claim, held *driver.Info) (lost bool, err error) {
	if held == nil || held.Session != s.id {
		return false, nil
	}
	var acquisition string
	there := false
	err = s.view(ctx, func(t *sqlkit.Tx) (err error) {
		there, err = t.One(`SELECT acquisition FROM {holds} WHERE token = ? AND namespace = ? AND name = ?`, []any{int64(held.Token), s.namespace, c.Key}, &acquisition)
		return err
	})
	switch {
	case err != nil:
		return false, err
	case !there: // it is gone by now
		return true, nil
	case acquisition != c.Acquisition:
		return false, nil
	}
	_, err = s.kill(ctx, c.Key, held.Token)
	return true, err
}

// endOwn ends the connections on which the server has keys for one acquisition, of connections that are lost or dropped here.
func (s *rowSession) endOwn(ctx context.Context, acquisition string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	var own []driver.Held
	list, args := sqlkit.List(keys)
	err := s.view(ctx, func(t *sqlkit.Tx) error {
		own = nil
		return t.Query(`SELECT name, token FROM {holds} FORCE INDEX (by_name) WHERE namespace = ? AND name IN `+list+` AND session_id = ? AND acquisition = ?`,
			append(append([]any{s.namespace}, args...), s.id, acquisition), func(scan func(...any) error) error {
				var h driver.Held
				err := scan(&h.Key, &h.Token)
				own = append(own, h)
				return err
			})
	})
	for _, h := range own {
		if err == nil {
			_, err = s.kill(ctx, h.Key, h.Token)
		}
	}
	return err
}

// lockInTurn locks the row of a key, by its primary key, and writes the hold: the token is its number, which the server gives
// once the row is locked. Nothing is locked for a session that has ended, whose own row is gone: that is read after the lock was
// waited for, since the condition depends on what was locked.
const lockInTurn = `INSERT INTO {holds} (namespace, name, session_id, acquisition, owner, meta, since, connection)
	SELECT r.namespace, r.name, ?, ?, ?, ?, {now}, CONNECTION_ID() FROM {rows} r WHERE r.namespace = ? AND r.name = ?
	AND EXISTS (SELECT 1 FROM {anchors} a WHERE a.id = ? AND r.name <> '') FOR UPDATE`

const lockNow = lockInTurn + ` SKIP LOCKED`

// lock runs one of the two; the token is 0 if no row was locked.
func (s *rowSession) lock(ctx context.Context, conn pinned, c *claim, statement string) (driver.Token, error) {
	s.mu.Lock()
	meta := c.meta
	c.wrote = meta
	s.mu.Unlock()
	c.sent = true
	result, err := s.With(ctx, conn).Result(statement, s.id, c.Acquisition, s.owner, meta, s.namespace, c.Key, s.id)
	if err != nil {
		return 0, err
	}
	return s.minted(ctx, result)
}

// describe gives a hold of the transaction another meta.
func (s *rowSession) describe(ctx context.Context, conn pinned, token driver.Token, meta string) error {
	n, err := s.With(ctx, conn).Exec(`UPDATE {holds} SET meta = ? WHERE token = ?`, meta, token)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d holds have token %d", n, token)
	}
	return err
}

const (
	// rounds is how often TryAcquire looks at keys that others take and free at the same time: for half
	// a second, or so.
	rounds = 40
	// nap is the longest pause between two of them.
	nap = 30 * time.Millisecond
)
