package api

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

func (s *server) listReplicas(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r, "limit", "cursor")
	page := q.page()
	if q.err != nil {
		return q.err
	}
	peers, err := s.store.Replicas(r.Context())
	if err != nil {
		return err
	}
	views := make([]wire.Replica, len(peers))
	for i, p := range peers {
		views[i] = p.View()
	}
	// A live replica may have the id of an expired one.
	key := func(v wire.Replica) string { return v.ID + " " + v.JoinedAt.UTC().Format(time.RFC3339Nano) }
	slices.SortFunc(views, func(a, b wire.Replica) int { return cmp.Compare(key(a), key(b)) })
	return replyPage(w, "replicas", views, key, page)
}
