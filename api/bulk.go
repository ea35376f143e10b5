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

// readBulk reads a batch. A part of the filter that is given says something: an empty one, as of a variable that is not set, would have more
// tasks changed.
func readBulk(w http.ResponseWriter, r *http.Request, q *query) (b wire.Bulk, err error) {
	state, since, until := "", "", ""
	texts := []struct {
		key string
		is  *string
	}{
		{"pool", &b.Pool},
		{"job", &b.Job},
		{"state", &state},
		{"kind", &b.Kind},
		{"key", &b.Key},
		{"tag", &b.Tag},
		{"fingerprint", &b.Fingerprint},
		{"since", &since},
		{"until", &until},
	}
	var limit *int
	keys := map[string]any{"ids": &b.IDs, "limit": &limit, "cursor": &b.Cursor, "dry_run": &b.DryRun, "force": &b.Force}
	given := make([]*string, len(texts))
	for i, t := range texts {
		keys[t.key] = &given[i]
	}
	if err := readKeys(w, r, q, keys); err != nil {
		return b, err
	}
	for i, t := range texts {
		switch {
		case given[i] == nil:
		case *given[i] == "":
			return b, invalid(t.key, "is empty; give it a value, or leave it out")
		default:
			*t.is = *given[i]
		}
	}
	b.State = jobs.State(state)
	if limit != nil {
		if b.Limit = *limit; b.Limit == 0 {
			return b, invalid("limit", "must be a whole number from 1 to %d; leave it out for %d", paging.MaxLimit, paging.DefaultLimit)
		}
	}
	for _, at := range []struct {
		field, text string
		is          *time.Time
	}{{"since", since, &b.Since}, {"until", until, &b.Until}} {
		if at.text == "" {
			continue
		}
		if *at.is, err = readTime(at.text, at.field); err != nil {
			return b, err
		}
		if outOfEra(*at.is) {
			return b, invalid(at.field, "year %d is out of range 1970–2199", at.is.Year())
		}
	}
	return b, nil
}
