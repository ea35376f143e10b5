package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// limitPool overrides limits of a pool, or clears all of them.
func (s *server) limitPool(w http.ResponseWriter, r *http.Request, q *query) error {
	limits, err := readLimits(w, r, q)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := s.store.LimitPool(r.Context(), name, by(r), limits); err != nil {
		return err
	}
	s.Replica.Wake()
	return s.replyPool(r.Context(), w, name)
}

// readLimits reads the limits to set; nil if "reset": true, as a parameter or in the body, clears them.
func readLimits(w http.ResponseWriter, r *http.Request, q *query) (*wire.PoolLimits, error) {
	var o wire.PoolLimits
	var rate json.RawMessage
	reset, too := q.truth("reset"), false
	err := readKeys(w, r, q, map[string]any{"max_running": &o.MaxRunning, "rate": &rate, "burst": &o.Burst, "reset": &too})
	if err == nil {
		o.Rate, err = readRate(rate)
	}
	if err != nil {
		return nil, err
	}
	switch none := o == (wire.PoolLimits{}); {
	case (reset || too) && none:
		return nil, nil
	case reset || too:
		return nil, malformed("reset", "clears all limits that were set; send it alone, or leave it out to set some")
	case none:
		return nil, malformed("", `there is nothing to set; send max_running, rate or burst, or "reset": true`)
	}
	err = o.Check()
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return nil, invalid(wrong.Path, "%s", wrong.Problem)
	}
	return &o, err
}

// readRate reads "rate"; nil if it is absent or null.
func readRate(value json.RawMessage) (*jobs.Rate, error) {
	var text *string
	if value != nil && json.Unmarshal(value, &text) != nil {
		return nil, malformed("rate", "must be a text, as in \"50/s\", \"100/m\", \"5/h\" or \"20/10s\", and \"0\" for no limit")
	}
	if text == nil {
		return nil, nil
	}
	rate, err := jobs.ParseRate(*text)
	if err != nil {
		return nil, malformed("rate", "%v", err)
	}
	return &rate, nil
}
