package api

import (
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// listDeadLetters lists what failed, or was lost, for good and was not retried since, in groups of what ended in the same way. An unknown
// pool is an error, not an empty list.
func (s *server) listDeadLetters(w http.ResponseWriter, r *http.Request, q *query) error {
	filter := wire.DeadLetterFilter{Pool: q.name("pool"), Fingerprint: q.fingerprint(), Page: q.page()}
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.DeadLetters(r.Context(), filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), filter.Pool, ""); err != nil {
			return err
		}
	}
	return replyList(w, http.StatusOK, rows, next, nil)
}

// fingerprint returns the parameter of that name, "" if it is absent. It needs the parameter pool.
func (q *query) fingerprint() string {
	s := q.values.Get("fingerprint")
	switch {
	case s == "":
	case !naming.Fingerprint.MatchString(s):
		q.refuse("fingerprint", "%s is not 16 hexadecimal digits, as /dead-letters has them", quote(s))
	case q.values.Get("pool") == "":
		q.refuse("fingerprint", "needs the parameter pool: a fingerprint is of tasks of one pool")
	}
	return s
}
