package api

import (
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var (
	outcomes = []jobs.Outcome{jobs.Ran, jobs.Skipped, jobs.Missed, jobs.Lost}
	ends     = []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled}
	states   = append([]jobs.State{jobs.StatePending, jobs.StateRunning}, ends...)
)

// listTriggers lists rows of the ledger, the latest first.
func (s *server) listTriggers(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r, "job", "outcome", "result", "since", "limit", "cursor")
	return s.replyTriggers(w, r, q, q.name("job"))
}

func (s *server) triggersOfJob(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r, "outcome", "result", "since", "limit", "cursor")
	name := r.PathValue("name")
	if q.err == nil {
		if _, err := s.jobRow(r.Context(), name); err != nil {
			return err
		}
	}
	return s.replyTriggers(w, r, q, name)
}

func (s *server) replyTriggers(w http.ResponseWriter, r *http.Request, q *query, job string) error {
	filter := wire.TriggerFilter{
		Job:     job,
		Outcome: oneOf(q, "outcome", outcomes...),
		Result:  oneOf(q, "result", ends...),
		Since:   q.time("since"),
		Page:    q.page(),
	}
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.Triggers(r.Context(), filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), "", job); err != nil {
			return err
		}
	}
	return replyList(w, http.StatusOK, rows, next, nil)
}
