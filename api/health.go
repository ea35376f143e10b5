package api

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// live answers while the process can.
func (s *server) live(w http.ResponseWriter, _ *http.Request, _ *query) error {
	return reply(w, http.StatusOK, map[string]bool{"live": true})
}

// ready answers 200 while this replica starts new work, else 503, with all conditions for the role Viewer. It calls no
// server: it reports what the replica saw last.
func (s *server) ready(w http.ResponseWriter, r *http.Request, _ *query) error {
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

// scrape sends the metrics of the replica. They are gathered before they are sent, so that a slow client does not block
// other scrapes.
func (s *server) scrape(w http.ResponseWriter, r *http.Request, _ *query) error {
	if s.metrics == nil {
		return errNothing
	}
	give, all, ok := s.scrapes.take(r.Context(), s.party(r), 1, quotaPatience)
	if !ok {
		return busy(w, quotaPatience, all, "scrapes", maxScrapes, maxScrapesEach)
	}
	defer give()
	g := gathered{header: w.Header(), status: http.StatusOK}
	s.metrics.ServeHTTP(&g, r)
	give()
	send(w, g.status, g.text.Bytes())
	return nil
}

// gathered is a response that is not sent yet.
type gathered struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (g *gathered) Header() http.Header { return g.header }

func (g *gathered) WriteHeader(status int) { g.status = status }

func (g *gathered) Write(text []byte) (int, error) { return g.text.Write(text) }
