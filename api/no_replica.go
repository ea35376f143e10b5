package api

import (
	"context"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// noReplica replaces the replica in a process without one: reads work, and what a replica must do is refused.
type noReplica struct{}

var _ Replica = noReplica{}

// needsReplica is the error of what needs a replica.
func needsReplica(what string) error {
	return newProblem(http.StatusNotImplemented, "no_replica", what+": this server runs no replica; use the address of a replica")
}

func (noReplica) ID() string               { return "" }
func (noReplica) Set() jobs.Set            { return jobs.Set{} }
func (noReplica) Runs(string, string) bool { return false }
func (noReplica) Loaded() bool             { return true } // there is nothing to wait for
func (noReplica) Wake(...string)           {}              // replicas notice one poll later

func (noReplica) RunJob(context.Context, string, string, string) (jobs.Trigger, jobs.Task, error) {
	return jobs.Trigger{}, jobs.Task{}, needsReplica("a run of a job needs its definition")
}

func (noReplica) Retry(context.Context, string, string, string) (jobs.Task, error) {
	return jobs.Task{}, needsReplica("a retry needs the definition of its job")
}

func (noReplica) Health() []wire.Condition {
	return []wire.Condition{{Name: "replica", Ready: true, Detail: "none in this process: it shows what the store knows"}}
}
