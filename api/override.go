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
	reset, err := readFlag(w, r, "reset")
	if err != nil || reset {
		return nil, err
	}
	return &value, nil
}

// readForce reads what run and retry take, and names it in the audit.
func readForce(w http.ResponseWriter, r *http.Request) (bool, error) {
	force, err := readFlag(w, r, "force")
	if a, ok := w.(*auditing); ok && force {
		a.entry.Action += "?force=true"
	}
	return force, err
}

// readFlag reads what may be said once, as a parameter or in the body.
func readFlag(w http.ResponseWriter, r *http.Request, name string) (bool, error) {
	q := readQuery(r, name)
	set := q.truth(name)
	if q.err != nil {
		return false, q.err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil || body == nil {
		return set, err
	}
	var too bool
	err = readObject(body, "", map[string]any{name: &too})
	return set || too, err
}
