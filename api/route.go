package api

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

type handler func(*server, http.ResponseWriter, *http.Request) error

// routes is all there is. What GET serves, HEAD may ask for too.
var routes = []struct {
	method, path string
	handle       handler
}{
	{"GET", "/healthz", (*server).live},
	{"GET", "/readyz", (*server).ready},
	{"GET", "/metrics", func(s *server, w http.ResponseWriter, r *http.Request) error { return pass(s.metrics, w, r) }},

	{"GET", "/", func(s *server, w http.ResponseWriter, r *http.Request) error { return pass(s.page, w, r) }},
	{"GET", "/jobs/{name}", func(s *server, w http.ResponseWriter, r *http.Request) error { return pass(s.page, w, r) }},
	{"GET", "/static/{file}", func(s *server, w http.ResponseWriter, r *http.Request) error { return pass(s.page, w, r) }},

	{"GET", "/api/v1/jobs", (*server).listJobs},
	{"GET", "/api/v1/jobs/{name}", (*server).getJob},
	{"GET", "/api/v1/jobs/{name}/next", (*server).nextOfJob},
	{"GET", "/api/v1/jobs/{name}/triggers", (*server).triggersOfJob},
	{"POST", "/api/v1/jobs/{name}/run", (*server).runJob},
	{"POST", "/api/v1/jobs/{name}/suspend", (*server).suspendJob},
	{"POST", "/api/v1/jobs/{name}/resume", (*server).resumeJob},

	{"GET", "/api/v1/triggers", (*server).listTriggers},

	{"GET", "/api/v1/pools", (*server).listPools},
	{"POST", "/api/v1/pools/{name}/tasks", (*server).enqueue},
	{"POST", "/api/v1/pools/{name}/pause", (*server).pausePool},
	{"POST", "/api/v1/pools/{name}/resume", (*server).resumePool},

	{"GET", "/api/v1/tasks", (*server).listTasks},
	{"GET", "/api/v1/tasks/{id}", (*server).getTask},
	{"GET", "/api/v1/tasks/{id}/logs", (*server).logsOfTask},
	{"POST", "/api/v1/tasks/{id}/cancel", (*server).cancelTask},
	{"POST", "/api/v1/tasks/{id}/retry", (*server).retryTask},

	{"GET", "/api/v1/replicas", (*server).listReplicas},
	{"GET", "/api/v1/locks", (*server).listLocks},
}

// values says what a placeholder can stand for. What cannot be a name or an id is not found.
var values = map[string]*regexp.Regexp{
	"{name}": jobs.NamePattern,
	"{id}":   regexp.MustCompile(`^[0-9a-zA-Z-]{1,64}$`),
	"{file}": regexp.MustCompile(`^[0-9a-z][0-9a-z.-]{0,63}$`),
}

var errNothing = notFound("there is nothing at this path")

// pass lets h answer. nil is a part that this program does not have.
func pass(h http.Handler, w http.ResponseWriter, r *http.Request) error {
	if h == nil {
		return errNothing
	}
	h.ServeHTTP(w, r)
	return nil
}

// route finds the one route of a path as it was sent: nothing is cleaned, joined, redirected or
// decoded twice, so that no two spellings of a path mean the same.
func (s *server) route(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	path := strings.Split(r.URL.EscapedPath(), "/")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allowed []string
	nothing := errNothing
	for _, route := range routes {
		fits, err := match(r, strings.Split(route.path, "/"), path)
		if err != nil {
			nothing = err
		}
		if !fits {
			continue
		}
		if route.method != method {
			allowed = append(allowed, route.method)
			continue
		}
		if err := route.handle(s, w, r); err != nil {
			s.fail(w, r, err)
		}
		return
	}
	if allowed == nil {
		s.fail(w, r, nothing)
		return
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	s.fail(w, r, &problem{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: "this path takes " + strings.Join(allowed, " and ")})
}

// match compares segment by segment and keeps what the placeholders stand for in r. The error says
// that all would fit, but for a segment that can be no name or id.
func match(r *http.Request, pattern, path []string) (bool, error) {
	if len(pattern) != len(path) {
		return false, nil
	}
	for i, want := range pattern {
		if _, placeholder := values[want]; !placeholder && want != path[i] {
			return false, nil
		}
	}
	for i, want := range pattern {
		allowed, placeholder := values[want]
		if !placeholder {
			continue
		}
		value, err := url.PathUnescape(path[i])
		if err != nil || !allowed.MatchString(value) {
			return false, notFound("there is nothing called %s", quote(cmp.Or(value, path[i])))
		}
		r.SetPathValue(strings.Trim(want, "{}"), value)
	}
	return true, nil
}

// recover makes a panic an error like others, with its stack for the log alone.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		s.fail(w, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
	}
}
