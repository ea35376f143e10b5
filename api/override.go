package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
)

// readKeys reads the body of a write that may have none. q has the same keys as parameters.
func readKeys(w http.ResponseWriter, r *http.Request, q *query, keys map[string]any) error {
	if q.err != nil {
		return q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || body == nil {
		return err
	}
	return readObject(body, "", keys)
}

// readOverride reads suspend, resume and pause: nothing sets the override to value; "reset": true, as a parameter or in
// the body, clears it.
func readOverride(w http.ResponseWriter, r *http.Request, q *query, value bool) (*bool, error) {
	reset, too := q.truth("reset"), false
	err := readKeys(w, r, q, map[string]any{"reset": &too})
	if err != nil || reset || too {
		return nil, err
	}
	return &value, nil
}

// readForce reads "force" of run and retry, as a parameter or in the body, and notes it in the audit. It is the "force"
// of the refusal, or true if no attempt was lost.
func readForce(w http.ResponseWriter, r *http.Request, q *query) (string, error) {
	force, too := q.force("force"), forcing("")
	if err := readKeys(w, r, q, map[string]any{"force": &too}); err != nil {
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
