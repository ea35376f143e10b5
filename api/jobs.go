package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// listJobs lists the jobs by name, those that begin with ?prefix=; those that no live configuration has with
// ?retired=true only.
func (s *server) listJobs(w http.ResponseWriter, r *http.Request, q *query) error {
	prefix, page, retired, after := q.name("prefix"), q.page(), q.truth("retired"), q.after("jobs")
	if q.err != nil {
		return q.err
	}
	names, err := s.store.JobNames(r.Context(), prefix, after, retired, page.Limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(names) > page.Limit {
		names = names[:page.Limit]
		next = paging.Cursor("jobs", names[page.Limit-1])
	}
	views := make([]wire.Job, 0, len(names))
	if len(names) > 0 { // no name would mean all
		rows, err := s.store.Jobs(r.Context(), names...)
		if err != nil {
			return err
		}
		set := s.Replica.Set()
		for _, row := range rows {
			views = append(views, viewJob(set, row))
		}
		s.addLabelReasons(r.Context(), views)
	}
	return replyList(w, http.StatusOK, views, next, func(v wire.Job) string { return paging.Cursor("jobs", v.Name) })
}

func (s *server) getJob(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.replyJob(r.Context(), w, r.PathValue("name"))
}

func (s *server) replyJob(ctx context.Context, w http.ResponseWriter, name string) error {
	row, err := s.jobRow(ctx, name)
	if err != nil {
		return err
	}
	views := []wire.Job{viewJob(s.Replica.Set(), row)}
	s.addLabelReasons(ctx, views)
	return reply(w, http.StatusOK, views[0])
}

func (s *server) jobRow(ctx context.Context, name string) (ledger.JobStatus, error) {
	rows, err := s.store.Jobs(ctx, name)
	if err != nil {
		return ledger.JobStatus{}, err
	}
	if len(rows) == 0 {
		return ledger.JobStatus{}, notFound("there is no job %s", quote(name))
	}
	return rows[0], nil
}

const maxNext = 100

// nextOfJob returns the next ?n= due times (1 … 100, default 10) of a job of this replica's configuration, suspended or
// not.
func (s *server) nextOfJob(w http.ResponseWriter, r *http.Request, q *query) error {
	n := q.number("n", 10, 1, maxNext)
	if q.err != nil {
		return q.err
	}
	if s.Replica == (noReplica{}) {
		return needsReplica("due times need the definition of the job")
	}
	name := r.PathValue("name")
	job, ok := s.Replica.Set().Jobs[name]
	if !ok {
		return notFound("the configuration of this replica has no job %s", quote(name))
	}
	due, err := nextDue(job.WithDefaults(), time.Now(), n)
	if err != nil {
		return err
	}
	return replyList(w, http.StatusOK, due, "", nil)
}

func nextDue(job jobs.Job, after time.Time, n int) ([]wire.Due, error) {
	schedule, err := job.Compile()
	if err != nil {
		return nil, err
	}
	zone, err := zone.Load(job.Timezone)
	if err != nil {
		return nil, err
	}
	return wire.DueTimes(schedule, zone, after, n), nil
}

// runJob opens a manual trigger. A run that the job's policies forbid is recorded as skipped, and is a conflict. While
// a lost attempt may still run, the refusal has "force", which starts the run as a parameter or in the body, unless
// another attempt was lost meanwhile.
func (s *server) runJob(w http.ResponseWriter, r *http.Request, q *query) error {
	force, err := readForce(w, r, q)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	trigger, task, err := s.Replica.RunJob(r.Context(), name, by(r), force)
	if errors.Is(err, jobs.ErrNotFound) {
		return s.unknownJob(r.Context(), name, err)
	}
	if err != nil {
		return err
	}
	made(w, task.ID, 1)
	return reply(w, http.StatusCreated, wire.Run{Trigger: trigger, Task: task})
}

// unknownJob is the error for a job that this replica's configuration does not have.
func (s *server) unknownJob(ctx context.Context, name string, otherwise error) error {
	rows, err := s.store.Jobs(ctx, name)
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		return otherwise
	case rows[0].Retired:
		return conflict("job %s is retired: no configuration of a live replica has it", quote(name))
	}
	return conflict("this replica's configuration has no job %s; use a replica that has it", quote(name))
}

func overrideJob(suspended bool) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, q *query) error {
		override, err := readOverride(w, r, q, suspended)
		if err != nil {
			return err
		}
		name := r.PathValue("name")
		if err := s.store.SuspendJob(r.Context(), name, by(r), override); err != nil {
			return err
		}
		s.Replica.Wake()
		return s.replyJob(r.Context(), w, name)
	}
}

// viewJob joins a job's row with its definition in this replica's configuration.
func viewJob(set jobs.Set, row ledger.JobStatus) wire.Job {
	v := row.Job
	if job, ok := set.Jobs[row.Name]; ok {
		job = job.WithDefaults()
		handler, pool := job.Handler, set.Pools[job.Pool]
		switch {
		case handler != nil:
		case job.Kind == "":
			handler = pool.Handler
		default:
			handler = pool.Kinds[job.Kind]
		}
		v.Description, v.Schedules, v.Timezone = job.Description, job.Specs(), job.Timezone
		v.Pool, v.Kind, v.Handler = job.Pool, job.Kind, describe(handler)
		v.Timeout, v.Concurrency, v.OnLost = job.Timeout.String(), job.Concurrency, job.OnLost
		v.RunsOn, v.Labels = job.RunsOn, job.Labels
		v.Suspended = job.Suspend
	}
	if v.Override != nil {
		v.Suspended = *v.Override
	}
	return v
}

func describe(h jobs.Handler) string {
	if d, ok := unwrap.As[jobs.Described](h); ok {
		return d.Describe()
	}
	return ""
}

var (
	outcomes = []jobs.Outcome{jobs.Ran, jobs.Skipped, jobs.Missed, jobs.Lost}
	ends     = []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled}
	states   = append([]jobs.State{jobs.StatePending, jobs.StateRunning}, ends...)
)

// listTriggers lists rows of the ledger, the latest first.
func (s *server) listTriggers(w http.ResponseWriter, r *http.Request, q *query) error {
	return s.replyTriggers(w, r, q, q.name("job"))
}

func (s *server) triggersOfJob(w http.ResponseWriter, r *http.Request, q *query) error {
	name := r.PathValue("name")
	if _, err := s.jobRow(r.Context(), name); err != nil {
		return err
	}
	return s.replyTriggers(w, r, q, name)
}

func (s *server) replyTriggers(w http.ResponseWriter, r *http.Request, q *query, job string) error {
	filter := wire.TriggerFilter{
		Job:     job,
		Outcome: oneOf(q, "outcome", outcomes...),
		Result:  oneOf(q, "result", ends...),
		Since:   q.time("since"),
		Page:    q.page(),
	}
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.Triggers(r.Context(), filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), "", job); err != nil {
			return err
		}
	}
	return replyList(w, http.StatusOK, rows, next, nil)
}
