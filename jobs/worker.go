package jobs

import (
	"context"
	"io"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Worker is the [Handler] of tasks that no replica runs: processes in any language take them over HTTP. It is for a [Pool], and for kinds of
// one; a job has it by its pool. Timeout, retries, limits and the rest of the pool hold for these tasks as for others. [Set.Validate] refuses it
// with what only a replica can do: locks, and a job's RunsOn.
type Worker struct{}

// Run is not called.
func (Worker) Run(context.Context, Task, io.Writer) error { return abort.ErrNotStarted }

// Describe implements [Described].
func (Worker) Describe() string { return "worker" }

// Identity implements [Identified]: a command may be called worker.
func (Worker) Identity() string { return "lockstep/worker" }

// IsWorker reports whether tasks with this handler are those of a [Worker].
func IsWorker(h Handler) bool { _, is := unwrap.As[Worker](h); return is }

// workerHash is in front of the fingerprints of HandlerHashes for what workers do: the store tells by it which tasks wait for one.
const workerHash = "worker:"

// workers checks what is refused beside handlers that are a Worker.
func (p *problems) workers(path string, pool Pool) {
	has := pool.Handler != nil && IsWorker(pool.Handler)
	for _, h := range pool.Kinds {
		has = has || h != nil && IsWorker(h)
	}
	if has && len(pool.Locks) > 0 {
		p.add(path+".locks", "only replicas hold locks, and workers over HTTP run tasks of the pool; remove the locks, or move what needs them to another pool")
	}
	if has && len(pool.RunsOn) > 0 {
		p.add(path+".runs_on", "is for replicas, and workers over HTTP run tasks of the pool; remove it, or move what needs it to another pool")
	}
	if has && pool.Output.File != "" {
		p.add(path+".output.file", "is on the replica that runs an attempt, and workers over HTTP run tasks of the pool; remove it, or move what needs it to another pool")
	}
}

// ofWorker checks a job whose tasks workers run.
func (p *problems) ofWorker(path string, job Job, pool Pool) {
	h := job.Handler
	if h != nil && IsWorker(h) {
		p.add(path+".worker", "is for pools and their kinds; give the job a pool with worker")
		return
	}
	if h == nil {
		if h = pool.Handler; job.Kind != "" {
			h = pool.Kinds[job.Kind]
		}
	}
	if h == nil || !IsWorker(h) {
		return
	}
	if len(job.Locks) > 0 {
		p.add(path+".locks", "only replicas hold locks, and workers over HTTP run this job; remove the locks, or give the job another pool or a handler of its own")
	}
	if job.Output.File != "" {
		p.add(path+".output.file", "is on the replica that runs an attempt, and workers over HTTP run this job; remove it, or give the job another pool or a handler of its own")
	}
	if len(job.RunsOn) > 0 {
		p.add(path+".runs_on", "is for replicas, and workers over HTTP run this job; remove it, or give the job another pool or a handler of its own")
	}
}
