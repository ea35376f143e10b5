package store

import (
	"context"
	"database/sql"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// lostCommit is a dialect that loses the answer to the next COMMIT, or that COMMIT itself if it is undone. Its caller gets
// the error after meanwhile has run.
type lostCommit struct {
	sqlkit.Dialect
	lose, undone, lost bool
	meanwhile          func()
}

func (p *lostCommit) Commit(ctx context.Context, conn *sql.Conn) (err error) {
	if !p.lose {
		return p.Dialect.Commit(ctx, conn)
	}
	p.lose, p.lost = false, true
	if p.undone {
		_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	} else {
		err = p.Dialect.Commit(ctx, conn)
	}
	if err != nil {
		return err
	}
	if p.meanwhile != nil {
		p.meanwhile()
	}
	return sqlkit.ErrUnknownCommit
}
