package api

import (
	"bytes"
	"net/http"
)

// scrape sends the metrics of the replica. They are gathered before they are sent, so that a slow client does not block
// other scrapes.
func (s *server) scrape(w http.ResponseWriter, r *http.Request) error {
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
