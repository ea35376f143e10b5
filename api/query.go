package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
)

// query is a request's parameters. err is the first error; after it all values are meaningless.
type query struct {
	values url.Values
	err    error
}

// readQuery refuses repeated parameters, and those that are not among the names; * allows all.
func readQuery(r *http.Request, names string) *query {
	if names == "*" {
		return &query{}
	}
	known := strings.Fields(names)
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = malformed("", "the query is not well encoded")
		return q
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			q.refuse(name, "unknown parameter %s", quote(name))
		case len(given) > 1:
			q.refuse(name, "the parameter is given %d times", len(given))
		}
	}
	return q
}

func (q *query) refuse(name, format string, args ...any) {
	if q.err == nil {
		q.err = malformed(name, format, args...)
	}
}

// name returns the name of a job or a pool, "" if the parameter is absent.
func (q *query) name(param string) string {
	s := q.values.Get(param)
	if s != "" && !naming.Pattern.MatchString(s) {
		q.refuse(param, "%s is not a name", quote(s))
	}
	return s
}

// number returns a whole number in low … high, or def if the parameter is absent.
func (q *query) number(param string, def, low, high int) int {
	if q.values.Get(param) == "" {
		return def
	}
	n, err := strconv.Atoi(q.values.Get(param))
	if err != nil || n < low || n > high {
		q.refuse(param, "must be a whole number from %d to %d", low, high)
	}
	return n
}

func (q *query) truth(param string) bool {
	switch q.values.Get(param) {
	case "true":
		return true
	case "", "false":
	default:
		q.refuse(param, `must be "true" or "false"`)
	}
	return false
}

// force is readForce of a parameter.
func (q *query) force(param string) string {
	switch said := q.values.Get(param); {
	case said == "", said == "false":
	case said == "true", forceText.MatchString(said):
		return said
	default:
		q.refuse(param, "%s", errForce)
	}
	return ""
}

func (q *query) time(param string) time.Time {
	if q.values.Get(param) == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, q.values.Get(param))
	if err != nil || outOfEra(t) {
		q.refuse(param, "must be a time as in 2006-01-02T15:04:05Z")
	}
	return t.UTC()
}

// details are those by which tasks are selected that no index has.
func (q *query) details() wire.TaskDetails {
	d := wire.TaskDetails{Kind: q.name("kind"), Key: q.text("key"), Tag: q.text("tag"), Since: q.time("since"), Until: q.time("until")}
	if !d.Until.IsZero() && !d.Since.Before(d.Until) {
		q.refuse("until", "must be after since")
	}
	return d
}

// text returns a key or a tag, "" if the parameter is absent.
func (q *query) text(param string) string {
	s := q.values.Get(param)
	if len(s) > limits.Key || !naming.Printable(s) {
		q.refuse(param, "must be at most %d bytes of printable text", limits.Key)
	}
	return s
}

func (q *query) page() wire.Page {
	return wire.Page{Limit: q.number("limit", paging.DefaultLimit, 1, paging.MaxLimit), Cursor: q.values.Get("cursor")}
}

// after returns the key of the row that a page of a list comes after; "" for the first page.
func (q *query) after(list string) string {
	key, err := paging.ReadCursor(q.values.Get("cursor"), list, 1)
	if err != nil {
		q.refuse("cursor", "not a cursor of a page")
	}
	return strings.Join(key, "")
}

// oneOf returns the parameter's value, which must be one of those allowed, or "".
func oneOf[S ~string](q *query, param string, allowed ...S) S {
	s := S(q.values.Get(param))
	if s != "" && !slices.Contains(allowed, s) {
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		q.refuse(param, "must be one of %s", strings.Join(words, ", "))
	}
	return s
}

// outOfEra: times are stored in microseconds, and one in another century is a mistake.
func outOfEra(t time.Time) bool { return t.Year() < 1970 || t.Year() > 2199 }
