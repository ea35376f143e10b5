package api

import (
	"net/http"
	"strings"
)

// errStarting refuses what depends on definitions before the store has them: a missing job may exist in a moment.
// Nothing was done, so the request can be repeated.
var errStarting = newProblem(http.StatusServiceUnavailable, "starting", "this replica is starting and has not loaded its definitions; retry in a moment")

// starting reports whether a route must wait for the definitions.
func (s *server) starting(path string) bool {
	return dependsOnDefinitions(path) && !s.Replica.Loaded()
}

// dependsOnDefinitions is true for routes that name a job or a pool.
func dependsOnDefinitions(path string) bool {
	switch path {
	case "/api/v1/triggers", "/api/v1/tasks", "/api/v1/tasks/{id}/retry":
		return true
	}
	return strings.HasPrefix(path, "/api/v1/jobs") || strings.HasPrefix(path, "/api/v1/pools")
}
