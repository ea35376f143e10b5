package api

import (
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// changeTasks handles one batch of the action. The audit has how many tasks were changed, and one of them.
func changeTasks(action wire.BulkAction) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, q *query) error {
		b, err := readBulk(w, r, q)
		if err == nil {
			err = b.Check(action)
		}
		if err != nil {
			return unfit(err, "", 0)
		}
		if b.Force {
			if a, ok := w.(*auditing); ok {
				a.entry.Action += "?force=true"
			}
		}
		b.By = by(r)
		result, err := s.store.ChangeTasks(r.Context(), action, b)
		if err != nil {
			return err
		}
		if result.Matched == 0 && b.Cursor == "" {
			if err := s.known(r.Context(), b.Pool, b.Job); err != nil {
				return err
			}
		}
		if result.Done > 0 && !b.DryRun {
			made(w, result.Tasks[0].ID, result.Done)
			if action != wire.BulkPurge {
				s.Replica.Wake()
			}
		}
		return reply(w, http.StatusOK, result)
	}
}

func readBulk(w http.ResponseWriter, r *http.Request, q *query) (b wire.Bulk, err error) {
	state, since, until := "", "", ""
	var limit *int
	err = readKeys(w, r, q, map[string]any{
		"ids": &b.IDs, "pool": &b.Pool, "job": &b.Job, "state": &state, "kind": &b.Kind, "key": &b.Key, "tag": &b.Tag, "fingerprint": &b.Fingerprint,
		"since": &since, "until": &until, "limit": &limit, "cursor": &b.Cursor, "dry_run": &b.DryRun, "force": &b.Force,
	})
	b.State = jobs.State(state)
	if err == nil && limit != nil {
		if b.Limit = *limit; b.Limit == 0 {
			err = invalid("limit", "must be a whole number from 1 to %d; leave it out for %d", paging.MaxLimit, paging.DefaultLimit)
		}
	}
	for _, at := range []struct {
		field, text string
		is          *time.Time
	}{{"since", since, &b.Since}, {"until", until, &b.Until}} {
		if err == nil && at.text != "" {
			*at.is, err = readTime(at.text, at.field)
		}
	}
	return b, err
}
