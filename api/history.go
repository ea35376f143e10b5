package api

import (
	"net/http"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
)

// historyOfJob lists the definitions that a job has had, the one first that began to govern last. A replica with an older configuration shows
// them, too: they are in the store.
func (s *server) historyOfJob(w http.ResponseWriter, r *http.Request, q *query) error {
	page, name := q.page(), r.PathValue("name")
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.History(r.Context(), name, page)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if _, err := s.jobRow(r.Context(), name); err != nil {
			return err
		}
	}
	return replyList(w, http.StatusOK, rows, next, func(d wire.Definition) string {
		return paging.Cursor("history", strconv.FormatInt(d.Since.UnixMicro(), 10), d.Hash)
	})
}
