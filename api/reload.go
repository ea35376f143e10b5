package api

import (
	"net/http"
)

// reload loads the configuration of this replica again, and answers when it has taken its place: with what has changed, or with all
// errors by file and line, and then the one before still holds.
func (s *server) reload(w http.ResponseWriter, r *http.Request, q *query) error {
	activate, too := q.truth("activate"), false
	if err := readKeys(w, r, q, map[string]any{"activate": &too}); err != nil {
		return err
	}
	if _, none := s.Replica.(noReplica); none {
		return needsReplica("a reload is of the configuration of a replica")
	}
	if s.Reload == nil {
		return newProblem(http.StatusNotImplemented, "no_configuration", "this process has no configuration file that could be loaded again; the program that embeds the replica replaces its set")
	}
	out, err := s.Reload(r.Context(), activate || too)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, out)
}
