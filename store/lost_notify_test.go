package store_test

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Each event becomes one task or is dropped, once, and an answer counts each once.
func notifyScene(p *play) (func(context.Context) error, func(error)) {
	p.db.Exec(p.t, "DELETE FROM {events}") // of the scenes before
	told, dropped := newID(), newID()
	for _, id := range []string{told, dropped} {
		p.db.Exec(p.t, "INSERT INTO {events} (id, event, job, task_id, error, happened_at) VALUES (?, 'failed', 'j', ?, '', 1)", id, id)
	}
	var done ledger.Notified
	notify := func(ctx context.Context, s *store.Store) (err error) {
		done, err = s.Sides().Replica.Notify(ctx, ledger.Notify{Limit: 9, Route: func(_ time.Time, e ledger.Event) ledger.Route {
			if e.TaskID != told {
				return ledger.Route{}
			}
			return ledger.Route{Task: &jobs.NewTask{Pool: "p", IdempotencyKey: told}}
		}})
		return err
	}
	call := func(ctx context.Context) error { return notify(ctx, p.wired) }
	return call, func(err error) {
		if err == nil && (done.Tasks != 1 || done.Dropped != 1) {
			p.errorf("%+v, want a task of one event, and the other one dropped", done)
		}
		p.check(notify(p.t.Context(), p.plain))
		p.count(0, "{events}")
		p.count(1, "{tasks} WHERE idem_key=?", told)
		p.mine()
	}
}
