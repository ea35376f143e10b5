package api

import (
	"net/http"
	"strings"
)

// errStarting refuses what depends on the definitions before the store knows them: what is not found
// yet may be there in a moment. Nothing was asked of the store, so anything may be asked again.
var errStarting = newProblem(http.StatusServiceUnavailable, "starting", "this replica is starting and has not loaded its definitions; ask again in a moment")

// starting reports whether a route has to wait until the definitions are loaded.
func (s *server) starting(path string) bool {
	return dependsOnDefinitions(path) && !s.Replica.Loaded()
}

// dependsOnDefinitions is true for whatever names a job or a pool.
func dependsOnDefinitions(path string) bool {
	switch path {
	case "/api/v1/triggers", "/api/v1/tasks", "/api/v1/tasks/{id}/retry":
		return true
	}
	return strings.HasPrefix(path, "/api/v1/jobs") || strings.HasPrefix(path, "/api/v1/pools")
}
