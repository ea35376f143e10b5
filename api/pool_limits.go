package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// limitPool overrides limits of a pool, clears some of what was set, or all of it.
func (s *server) limitPool(w http.ResponseWriter, r *http.Request, q *query) error {
	limits, err := readLimits(w, r, q)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	err = s.store.LimitPool(r.Context(), name, by(r), limits)
	if err != nil {
		return unfit(err, "", 0) // the pool's definition may not go with it
	}
	s.Replica.Wake()
	return s.replyPool(r.Context(), w, name)
}

// readLimits reads the limits to set, and which to reset; nil if "reset": true, as a parameter or in the body, clears all.
func readLimits(w http.ResponseWriter, r *http.Request, q *query) (*wire.PoolLimits, error) {
	var o wire.PoolLimits
	var rate, perKey, perKind, fair, order json.RawMessage
	all, too := q.truth("reset"), resetting{}
	err := readKeys(w, r, q, map[string]any{
		"max_running": &o.MaxRunning, "rate": &rate, "burst": &o.Burst, "per_key": &perKey, "per_kind": &perKind, "fair": &fair, "order": &order, "reset": &too,
	})
	if err == nil {
		o.Rate, err = readRate("rate", rate)
	}
	if err == nil && is(perKey) {
		o.PerKey, err = readFields("per_key", perKey)
	}
	if err == nil && is(perKind) {
		o.PerKind = map[string]wire.LimitFields{}
		err = readEach(perKind, "per_kind", func(kind, field string, value json.RawMessage) error {
			l, err := readFields(field, value)
			if err == nil {
				o.PerKind[kind] = *l
			}
			return err
		})
	}
	if err == nil && is(fair) {
		o.Fair, err = readWeights(fair)
	}
	if err != nil {
		return nil, err
	}
	if is(order) {
		return nil, invalid("order", "is not set while the pool runs, as all tasks that wait would have to be put into it in one transaction; change it in the configuration")
	}
	o.Reset = too.fields
	switch none := o.None(); {
	case (all || too.all) && none:
		return nil, nil
	case all || too.all:
		return nil, malformed("reset", "clears all limits that were set; send it alone, or leave it out to set some")
	case none:
		return nil, malformed("", `there is nothing to set; send max_running, rate, burst, per_key, per_kind or fair, or "reset": true`)
	}
	return &o, unfit(o.Check(), "", 0)
}

// is reports whether a value was sent that is not null.
func is(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// resetting is "reset": true or false, or the fields to reset.
type resetting struct {
	all    bool
	fields []string
}

func (r *resetting) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &r.all) == nil || json.Unmarshal(text, &r.fields) == nil {
		return nil
	}
	return errReset
}

var errReset = errors.New(`must be true, or a list of fields such as "rate", "per_key" or "per_kind.KIND.burst"`)

// readFields reads limits of a key or of a kind.
func readFields(within string, value json.RawMessage) (*wire.LimitFields, error) {
	var l wire.LimitFields
	var rate json.RawMessage
	err := readObject(value, within, map[string]any{"max_running": &l.MaxRunning, "rate": &rate, "burst": &l.Burst})
	if err == nil {
		l.Rate, err = readRate(within+".rate", rate)
	}
	return &l, err
}

// readWeights reads "fair".
func readWeights(value json.RawMessage) (*wire.Fair, error) {
	var weights json.RawMessage
	f := &wire.Fair{Weights: map[string]int{}}
	if err := readObject(value, "fair", map[string]any{"weights": &weights}); err != nil || !is(weights) {
		return f, err
	}
	return f, readEach(weights, "fair.weights", func(key, field string, value json.RawMessage) error {
		var weight int
		if err := json.Unmarshal(value, &weight); err != nil {
			return malformed(field, "%s", wrongType(err, key, reflect.TypeFor[int]()))
		}
		f.Weights[key] = weight
		return nil
	})
}

// readRate reads a rate; nil if it is absent or null.
func readRate(field string, value json.RawMessage) (*jobs.Rate, error) {
	var text *string
	if value != nil && json.Unmarshal(value, &text) != nil {
		return nil, malformed(field, "must be a text, as in \"50/s\", \"100/m\", \"5/h\" or \"20/10s\", and \"0\" for no limit")
	}
	if text == nil {
		return nil, nil
	}
	rate, err := jobs.ParseRate(*text)
	if err != nil {
		return nil, malformed(field, "%v", err)
	}
	return &rate, nil
}
