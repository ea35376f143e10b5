package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
)

// readWrite reads a request whose values may be given as parameters, which inQuery reads, or in the body.
func readWrite(w http.ResponseWriter, r *http.Request, inBody map[string]any, inQuery func(*query)) error {
	q := readQuery(r, slices.Collect(maps.Keys(inBody))...)
	inQuery(q)
	if q.err != nil {
		return q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || body == nil {
		return err
	}
	return readObject(body, "", inBody)
}

// readNothing reads a request without parameters and with no body or {}.
func readNothing(w http.ResponseWriter, r *http.Request) error {
	return readWrite(w, r, nil, func(*query) {})
}

// readOverride reads suspend, resume and pause: nothing sets the override to value; "reset": true, as a parameter or in
// the body, clears it.
func readOverride(w http.ResponseWriter, r *http.Request, value bool) (*bool, error) {
	var reset, too bool
	err := readWrite(w, r, map[string]any{"reset": &too}, func(q *query) { reset = q.truth("reset") })
	if err != nil || reset || too {
		return nil, err
	}
	return &value, nil
}

// readForce reads "force" of run and retry, as a parameter or in the body, and notes it in the audit. It is the "force"
// of the refusal, or true if no attempt was lost.
func readForce(w http.ResponseWriter, r *http.Request) (force string, err error) {
	var too forcing
	err = readWrite(w, r, map[string]any{"force": &too}, func(q *query) { force = q.force("force") })
	if err != nil {
		return "", err
	}
	force = cmp.Or(string(too), force)
	if a, ok := w.(*auditing); ok && force != "" {
		a.entry.Action += "?force=true"
	}
	return force, nil
}

// forcing is "force" in a body: true, false, or a text.
type forcing string

// forceText is the id of a task, or a time.
var forceText = regexp.MustCompile(`^[0-9A-Za-z.:-]{6,64}$`)

func (f *forcing) UnmarshalJSON(text []byte) error {
	var said any
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	switch said := said.(type) {
	case nil:
		return nil
	case bool:
		*f = ""
		if said {
			*f = "true"
		}
		return nil
	case string:
		if forceText.MatchString(said) {
			*f = forcing(said)
			return nil
		}
	}
	return errForce
}

var errForce = errors.New(`must be true, false, or the "force" of the refusal`)
