package api

import (
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// getPause says whether everything is paused.
func (s *server) getPause(w http.ResponseWriter, r *http.Request, _ *query) error {
	pause, err := s.store.Paused(r.Context())
	if err != nil {
		return err
	}
	return replyPause(w, pause)
}

func replyPause(w http.ResponseWriter, p ledger.Pause) error {
	return reply(w, http.StatusOK, wire.Pausing{Paused: p.Is(), Pause: p.View()})
}

// pauseAll pauses everything, with a "reason", "until" a time.
func (s *server) pauseAll(w http.ResponseWriter, r *http.Request, q *query) error {
	p, until := ledger.Pause{By: by(r)}, (*string)(nil)
	err := readKeys(w, r, q, map[string]any{"reason": &p.Reason, "until": &until})
	if err == nil {
		p.Until, err = readEnd(until, false)
	}
	if err != nil {
		return err
	}
	if len(p.Reason) > limits.PauseReason || !naming.Printable(p.Reason) {
		return invalid("reason", "must be at most %d bytes of printable text", limits.PauseReason)
	}
	set, err := s.store.PauseAll(r.Context(), p)
	if err != nil {
		return unfit(err, "", 0)
	}
	return replyPause(w, set)
}

// resumeAll ends the pause of everything, and says whether there was one. It may be repeated.
func (s *server) resumeAll(w http.ResponseWriter, r *http.Request, q *query) error {
	if err := readKeys(w, r, q, map[string]any{}); err != nil {
		return err
	}
	was, err := s.store.ResumeAll(r.Context())
	if err != nil {
		return err
	}
	s.Replica.Wake()
	return reply(w, http.StatusOK, wire.Pausing{WasPaused: &was})
}
