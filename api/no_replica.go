package api

import (
	"context"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// noReplica stands in for the replica in a process that has none: it shows what the store knows, and
// lets nothing happen that a replica has to do.
type noReplica struct{}

var _ Replica = noReplica{}

// needsReplica refuses what only a process with a replica can answer.
func needsReplica(what string) error {
	return newProblem(http.StatusNotImplemented, "no_replica", what+": this server shows the store and runs no replica; ask the address of a replica")
}

func (noReplica) ID() string               { return "" }
func (noReplica) Set() jobs.Set            { return jobs.Set{} }
func (noReplica) Runs(string, string) bool { return false }
func (noReplica) Loaded() bool             { return true } // there is nothing to wait for
func (noReplica) Wake(...string)           {}              // replicas notice one poll later
func (noReplica) Nudge()                   {}

func (noReplica) RunJob(context.Context, string, string, string) (jobs.Trigger, jobs.Task, error) {
	return jobs.Trigger{}, jobs.Task{}, needsReplica("a run of a job needs its definition")
}

func (noReplica) RetryTask(context.Context, string, string, string) (jobs.Task, error) {
	return jobs.Task{}, needsReplica("a retry needs the definition of its job")
}

func (noReplica) Health() []wire.Condition {
	return []wire.Condition{{Name: "replica", Ready: true, Detail: "none in this process: it shows what the store knows"}}
}
