package api

import (
	"net/http"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// live answers as long as the process can.
func (s *server) live(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, map[string]bool{"live": true})
}

// ready answers 200 while this replica starts new work and 503 while it does not, each time with
// all conditions. It asks no server: it says what the replica last saw.
func (s *server) ready(w http.ResponseWriter, _ *http.Request) error {
	view := ledger.ReadyView{Ready: true, Conditions: s.Replica.Health()}
	if view.Conditions == nil {
		view.Conditions = []ledger.Condition{}
	}
	for _, c := range view.Conditions {
		view.Ready = view.Ready && c.Ready
	}
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	return reply(w, status, view)
}
