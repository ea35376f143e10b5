package api

import (
	"net/http"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// live answers while the process can.
func (s *server) live(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, map[string]bool{"live": true})
}

// ready answers 200 while this replica starts new work, else 503, with all conditions for the role Viewer. It calls no
// server: it reports what the replica saw last.
func (s *server) ready(w http.ResponseWriter, r *http.Request) error {
	view := s.readiness()
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	if s.access != nil {
		if len(r.Header.Values("Authorization")) == 0 {
			return reply(w, status, map[string]bool{"ready": view.Ready}) // for load balancers: no names, no addresses
		}
		if _, err := s.identify(w, r); err != nil {
			return err
		}
	}
	return reply(w, status, view)
}

// readiness has the conditions of the replica and of the embedding program; only the former make it unready.
func (s *server) readiness() wire.Readiness {
	conditions := s.Replica.Health()
	ready := !slices.ContainsFunc(conditions, func(c wire.Condition) bool { return !c.Ready })
	if s.conditions != nil {
		conditions = slices.Concat(conditions, s.conditions())
	}
	if conditions == nil {
		conditions = []wire.Condition{}
	}
	return wire.Readiness{Ready: ready, Conditions: conditions}
}

// storeUp reports whether the store answers the replica.
func (s *server) storeUp() bool {
	return !slices.ContainsFunc(s.Replica.Health(), func(c wire.Condition) bool { return c.Name == "store" && !c.Ready })
}
