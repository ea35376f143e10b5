package store_test

import (
	"context"
	"errors"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// peer is a replica beside the one at work, which has beaten once and has ended when the scene is over.
func (p *play) peer() (session string, leave func()) {
	p.t.Helper()
	session, err := p.plain.Sides().Replica.Join(p.t.Context(), ledger.Member{Replica: "peer", LockService: "x"})
	p.check(err)
	_, err = p.plain.Sides().Replica.Beat(p.t.Context(), session)
	p.check(err)
	return session, func() { p.check(p.plain.Sides().Replica.Leave(p.t.Context(), session)) }
}

// A replica that gets the answer of Join has a session. Without an answer, it has one at most.
func joinScene(p *play) (func(context.Context) error, func(error)) {
	session := ""
	call := func(ctx context.Context) (err error) {
		session, err = p.wired.Sides().Replica.Join(ctx, ledger.Member{Replica: "joins", LockService: "x"})
		return err
	}
	return call, func(err error) {
		if err == nil {
			p.count(1, "{sessions} WHERE replica='joins' AND dead=0 AND id=?", session)
		} else if session != "" {
			p.errorf("session %s came with %v", session, err)
		}
		if p.db.Int(p.t, "SELECT COUNT(*) FROM {sessions} WHERE replica='joins' AND dead=0") > 0 {
			p.count(1, "{sessions} WHERE replica='joins' AND dead=0")
			p.check(p.plain.Sides().Replica.Leave(p.t.Context(), p.db.Text(p.t, "SELECT id FROM {sessions} WHERE replica='joins' AND dead=0")))
		}
	}
}

// An acknowledged beat was counted, and no beat reports a live session as dead.
func beatScene(p *play) (func(context.Context) error, func(error)) {
	session, leave := p.peer()
	call := func(ctx context.Context) error {
		_, err := p.wired.Sides().Replica.Beat(ctx, session)
		if errors.Is(err, ledger.ErrSessionDead) {
			p.errorf("%v", err)
		}
		return err
	}
	return call, func(err error) {
		if err == nil {
			p.count(1, "{sessions} WHERE id=? AND beat>1", session)
		}
		p.count(1, "{sessions} WHERE id=? AND dead=0", session)
		leave()
	}
}

func drainScene(p *play) (func(context.Context) error, func(error)) {
	session, leave := p.peer()
	call := func(ctx context.Context) error {
		err := p.wired.Sides().Replica.SetDraining(ctx, session)
		if errors.Is(err, ledger.ErrSessionDead) {
			p.errorf("%v", err)
		}
		return err
	}
	return call, func(err error) {
		if err == nil {
			p.count(1, "{sessions} WHERE id=? AND draining=1", session)
		}
		p.count(1, "{sessions} WHERE id=? AND dead=0", session)
		leave()
	}
}

// A session that is reported as expired is dead, and one that beat meanwhile is not.
func expireScene(p *play) (func(context.Context) error, func(error)) {
	session, leave := p.peer()
	expired, early := false, false
	call := func(ctx context.Context) (err error) {
		if early, err = p.wired.Sides().Replica.Expire(ctx, session, 0); err == nil {
			expired, err = p.wired.Sides().Replica.Expire(ctx, session, 1)
		}
		return err
	}
	return call, func(err error) {
		if early || err == nil && !expired {
			p.errorf("declared dead at beat 0: %t, at beat 1: %t", early, expired)
		}
		if expired {
			p.count(1, "{sessions} WHERE id=? AND dead=1", session)
		}
		leave()
	}
}
