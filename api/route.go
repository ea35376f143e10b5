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

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

type route struct {
	method, path string
	role         Role
	parameters   string
	handle       handler
}

type handler func(*server, http.ResponseWriter, *http.Request, *query) error

// routes are all routes, each with its role and its parameters, * for any. HEAD is allowed wherever GET is. Routes for
// anyone hold no data.
var routes = []route{
	{"GET", "/healthz", anyone, "*", (*server).live},
	{"GET", "/readyz", anyone, "*", (*server).ready},
	{"GET", "/metrics", Viewer, "*", (*server).scrape},

	{"GET", "/", anyone, "*", (*server).servePage},
	{"GET", "/dead-letters", anyone, "*", (*server).servePage},
	{"GET", "/jobs/{name}", anyone, "*", (*server).servePage},
	{"GET", "/static/{file}", anyone, "*", (*server).servePage},

	{"GET", "/api/v1/jobs", Viewer, "prefix limit cursor retired", (*server).listJobs},
	{"GET", "/api/v1/jobs/{name}", Viewer, "", (*server).getJob},
	{"GET", "/api/v1/jobs/{name}/next", Viewer, "n", (*server).nextOfJob},
	{"GET", "/api/v1/jobs/{name}/triggers", Viewer, "outcome result since limit cursor", (*server).triggersOfJob},
	{"GET", "/api/v1/jobs/{name}/why", Viewer, "at", (*server).whyOfJob},
	{"GET", "/api/v1/jobs/{name}/history", Viewer, "limit cursor", (*server).historyOfJob},
	{"POST", "/api/v1/jobs/{name}/run", Operator, "force", (*server).runJob},
	{"POST", "/api/v1/jobs/{name}/backfill", Operator, "", (*server).backfill},
	{"POST", "/api/v1/suspend/jobs", Operator, "", overrideJobs(true)},
	{"POST", "/api/v1/resume/jobs", Operator, "", overrideJobs(false)},
	{"POST", "/api/v1/jobs/{name}/skip-next", Operator, "", (*server).skipNext},
	{"POST", "/api/v1/jobs/{name}/suspend", Operator, "reset", overrideJob(true)},
	{"POST", "/api/v1/jobs/{name}/resume", Operator, "reset", overrideJob(false)},

	{"GET", "/api/v1/next", Viewer, "limit until", (*server).nextOfAll},
	{"GET", "/api/v1/triggers", Viewer, "job outcome result since limit cursor", (*server).listTriggers},

	{"GET", "/api/v1/orders", Viewer, "job kind state limit cursor", (*server).listOrders},
	{"GET", "/api/v1/orders/{id}", Viewer, "", (*server).getOrder},
	{"POST", "/api/v1/orders/{id}/cancel", Operator, "", (*server).cancelOrder},

	{"GET", "/api/v1/pools", Viewer, "limit cursor retired", (*server).listPools},
	{"POST", "/api/v1/pools/{name}/tasks", Operator, "", (*server).enqueue},
	{"POST", "/api/v1/pools/{name}/pause", Operator, "reset", overridePool(true)},
	{"POST", "/api/v1/pools/{name}/resume", Operator, "reset", overridePool(false)},
	{"POST", "/api/v1/pools/{name}/limits", Operator, "reset", (*server).limitPool},
	{"POST", "/api/v1/pools/{name}/claim", Worker, "", (*server).claim},

	{"GET", "/api/v1/tasks", Viewer, "pool job state fingerprint kind key tag since until limit cursor", (*server).listTasks},
	{"POST", "/api/v1/tasks/retry", Operator, "", changeTasks(wire.BulkRetry)},
	{"POST", "/api/v1/tasks/cancel", Operator, "", changeTasks(wire.BulkCancel)},
	{"POST", "/api/v1/tasks/purge", Admin, "", changeTasks(wire.BulkPurge)},
	{"GET", "/api/v1/tasks/{id}", Viewer, "", (*server).getTask},
	{"GET", "/api/v1/tasks/{id}/why", Viewer, "", (*server).whyOfTask},
	{"GET", "/api/v1/tasks/{id}/logs", Viewer, "attempt follow wait", (*server).logsOfTask},
	{"PATCH", "/api/v1/tasks/{id}", Operator, "", (*server).updateTask},
	{"POST", "/api/v1/tasks/{id}/cancel", Operator, "", (*server).cancelTask},
	{"POST", "/api/v1/tasks/{id}/retry", Operator, "force", (*server).retryTask},
	{"POST", "/api/v1/tasks/{id}/heartbeat", Worker, "", (*server).heartbeat},
	{"POST", "/api/v1/tasks/{id}/complete", Worker, "", (*server).complete},
	{"POST", "/api/v1/tasks/{id}/fail", Worker, "", (*server).failAttempt},
	{"POST", "/api/v1/tasks/{id}/snooze", Worker, "", (*server).snooze},

	{"GET", "/api/v1/dead-letters", Viewer, "pool fingerprint limit cursor", (*server).listDeadLetters},

	{"GET", "/api/v1/pause", Viewer, "", (*server).getPause},
	{"POST", "/api/v1/pause", Operator, "", (*server).pauseAll},
	{"POST", "/api/v1/resume", Operator, "", (*server).resumeAll},

	{"GET", "/api/v1/replicas", Viewer, "limit cursor", (*server).listReplicas},
	{"POST", "/api/v1/reload", Admin, "activate", (*server).reload},
	{"GET", "/api/v1/workers", Viewer, "limit cursor", (*server).listWorkers},
	{"DELETE", "/api/v1/workers/{session}", Worker, "", (*server).leaveWorker},
	{"GET", "/api/v1/locks", Viewer, "prefix limit cursor", (*server).listLocks},
	{"POST", "/api/v1/locks/release", Admin, "", (*server).releaseLock},
	{"GET", "/api/v1/audit", Admin, "limit cursor", (*server).listAudit},

	{"GET", "/api/v1/events", Viewer, "", (*server).events},
}

// words are no ids, but the last segments of paths that have an id in other routes.
var words = []string{"retry", "cancel", "purge"}

// values are the patterns of placeholders. What cannot be a name or an id is not found.
var values = map[string]*regexp.Regexp{
	"{name}":    naming.Pattern,
	"{id}":      regexp.MustCompile(`^[0-9a-zA-Z-]{1,64}$`),
	"{session}": regexp.MustCompile(`^[0-9a-zA-Z-]{1,64}$`),
	"{file}":    regexp.MustCompile(`^[0-9a-z][0-9a-z.-]{0,63}$`),
}

// errNothing has its own code: a wrong path must not look like a missing task.
var errNothing = newProblem(http.StatusNotFound, "no_path", "no such path")

func (s *server) servePage(w http.ResponseWriter, r *http.Request, _ *query) error {
	if s.page == nil {
		return errNothing
	}
	s.page.ServeHTTP(w, r)
	return nil
}

// route finds the route of a path as sent: nothing is cleaned, joined, redirected or decoded twice, so that each path
// has one spelling. Except for routes for anyone, nothing is revealed before the caller is identified.
func (s *server) route(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(r.URL.EscapedPath(), "/")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allowed []string
	var nothing error = errNothing
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
		s.run(w, r, route)
		return
	}
	if _, err := s.identify(w, r); err != nil {
		s.refuse(w, r, err)
		return
	}
	if allowed == nil {
		s.refuse(w, r, nothing)
		return
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	s.refuse(w, r, newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this path allows "+strings.Join(allowed, " and ")))
}

// isWrite reports whether the request is one that may change something.
func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// refuse sends an error without reading the body.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	soon(w, r)
	unread(w, r)
	s.fail(w, r, err)
}

// run handles a request of a caller with the role.
func (s *server) run(w http.ResponseWriter, r *http.Request, to route) {
	if to.role == anyone {
		soon(w, r)
	} else {
		who, err := s.identify(w, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		r = withCaller(r, who)
		if s.starting(to.path) {
			w.Header().Set("Retry-After", "1")
			s.refuse(w, r, errStarting)
			return
		}
		if isWrite(r) && s.audit != nil && (to.role != Worker || !who.Role.covers(Worker)) { // of a worker's calls, tasks keep what came of them
			w = s.auditing(w, r, to.path)
		}
		if !who.Role.covers(to.role) {
			s.refuse(w, r, forbidden(who.Role, to.role))
			return
		}
		give, err := s.room(w, r, to.path)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer give()
	}
	defer s.recover(w, r) // within the audit
	q := readQuery(r, to.parameters)
	err := q.err
	if err == nil {
		err = to.handle(s, w, r, q)
	}
	if err != nil {
		s.fail(w, r, err)
	}
	taken(w, r)
}

// match compares segment by segment and keeps the values of placeholders in r. The error means that only a
// placeholder's value is impossible.
func match(r *http.Request, pattern, path []string) (fits bool, impossible error) {
	if len(pattern) != len(path) {
		return false, nil
	}
	for i, want := range pattern {
		allowed, placeholder := values[want]
		if !placeholder {
			if want != path[i] {
				return false, nil
			}
			continue
		}
		value, err := url.PathUnescape(path[i])
		if err != nil || !allowed.MatchString(value) || want == "{id}" && slices.Contains(words, value) {
			name := ""
			if want == "{name}" {
				name = "; names have " + naming.Hint
			}
			impossible = notFound("there is nothing called %s%s", quote(cmp.Or(value, path[i])), name)
			continue
		}
		r.SetPathValue(strings.Trim(want, "{}"), value)
	}
	return impossible == nil, impossible
}

// recover turns a panic into an internal error, with its stack in the log only.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		s.fail(w, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
	}
}

// errStarting refuses what depends on definitions before the store has them: a missing job may exist in a moment.
// Nothing was done, so the request can be repeated.
var errStarting = newProblem(http.StatusServiceUnavailable, "starting", "this replica is starting and has not loaded its definitions; retry in a moment")

// starting reports whether a route must wait for the definitions: those that name a job or a pool.
func (s *server) starting(path string) bool {
	waits := strings.HasPrefix(path, "/api/v1/jobs") || strings.HasPrefix(path, "/api/v1/pools") || strings.HasSuffix(path, "/jobs") ||
		slices.Contains([]string{"/api/v1/next", "/api/v1/orders", "/api/v1/triggers", "/api/v1/tasks", "/api/v1/tasks/{id}/retry", "/api/v1/tasks/retry", "/api/v1/tasks/cancel", "/api/v1/tasks/purge", "/api/v1/dead-letters"}, path)
	return waits && !s.Replica.Loaded()
}
