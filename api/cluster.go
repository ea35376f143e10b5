package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// listPools lists the pools by name; those that no live configuration has with ?retired=true only, or while they have
// tasks.
func (s *server) listPools(w http.ResponseWriter, r *http.Request, q *query) error {
	page, retired, after := q.page(), q.truth("retired"), q.after("pools")
	if q.err != nil {
		return q.err
	}
	rows, err := s.store.Pools(r.Context())
	if err != nil {
		return err
	}
	set := s.Replica.Set()
	views := make([]wire.Pool, 0, len(rows))
	for _, row := range rows {
		if retired || row.Hash != "" || row.Pending+row.Scheduled+row.Running > 0 {
			views = append(views, viewPool(set, row))
		}
	}
	slices.SortFunc(views, func(a, b wire.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return replyPage(w, "pools", views, func(v wire.Pool) string { return v.Name }, after, page.Limit)
}

func overridePool(paused bool) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, q *query) error {
		override, err := readOverride(w, r, q, paused)
		if err != nil {
			return err
		}
		name := r.PathValue("name")
		if err := s.store.PausePool(r.Context(), name, by(r), override); err != nil {
			return err
		}
		s.Replica.Wake()
		return s.replyPool(r.Context(), w, name)
	}
}

func (s *server) replyPool(ctx context.Context, w http.ResponseWriter, name string) error {
	row, err := s.poolRow(ctx, name)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, viewPool(s.Replica.Set(), row))
}

func (s *server) poolRow(ctx context.Context, name string) (ledger.PoolStatus, error) {
	rows, err := s.store.Pools(ctx)
	if err != nil {
		return ledger.PoolStatus{}, err
	}
	for _, row := range rows {
		if row.Name == name {
			return row, nil
		}
	}
	return ledger.PoolStatus{}, notFound("there is no pool %s", quote(name))
}

func viewPool(set jobs.Set, row ledger.PoolStatus) wire.Pool {
	v := row.View()
	if pool, ok := set.Pool(row.Name); ok {
		v.Description, v.Workers = pool.Description, pool.Workers
		v.Kinds = slices.Sorted(maps.Keys(pool.Kinds))
		v.RunsOn = pool.RunsOn
		v.PauseOn = wire.NewPauseOn(pool.PauseOn)
	}
	return v
}

func (s *server) listReplicas(w http.ResponseWriter, r *http.Request, q *query) error {
	page, after := q.page(), q.after("replicas")
	if q.err != nil {
		return q.err
	}
	peers, err := s.store.Replicas(r.Context())
	if err != nil {
		return err
	}
	views := ledger.Views(peers)
	// A live replica may have the id of an expired one.
	key := func(v wire.Replica) string { return v.ID + " " + v.JoinedAt.UTC().Format(time.RFC3339Nano) }
	slices.SortFunc(views, func(a, b wire.Replica) int { return cmp.Compare(key(a), key(b)) })
	return replyPage(w, "replicas", views, key, after, page.Limit)
}
