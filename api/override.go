package api

import "net/http"

// readNothing reads a request that has nothing to say: no parameters, and no body or {}.
func readNothing(w http.ResponseWriter, r *http.Request) error {
	if q := readQuery(r); q.err != nil {
		return q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || body == nil {
		return err
	}
	return readObject(body, "", nil)
}

// readOverride reads what suspend, resume and pause take: nothing, which sets the override to
// value, or "reset": true, as a parameter or in the body, which clears it.
func readOverride(w http.ResponseWriter, r *http.Request, value bool) (*bool, error) {
	q := readQuery(r, "reset")
	reset := q.truth("reset")
	if q.err != nil {
		return nil, q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	if body != nil {
		var too bool
		if err := readObject(body, "", map[string]any{"reset": &too}); err != nil {
			return nil, err
		}
		reset = reset || too
	}
	if reset {
		return nil, nil
	}
	return &value, nil
}
