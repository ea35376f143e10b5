package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
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
		known := s.upcoming()
		for _, row := range rows {
			views = append(views, viewJob(known, row))
		}
		s.addJobReasons(r.Context(), views)
	}
	return replyList(w, http.StatusOK, views, next, func(v wire.Job) string { return paging.Cursor("jobs", v.Name) })
}

func (s *server) getJob(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.replyJob(r.Context(), w, r.PathValue("name"))
}

// jobOrders is how many open orders a job is shown with.
const jobOrders = 20

func (s *server) replyJob(ctx context.Context, w http.ResponseWriter, name string) error {
	row, err := s.jobRow(ctx, name)
	if err != nil {
		return err
	}
	known := s.upcoming()
	views := []wire.Job{viewJob(known, row)}
	job := known.Set.Jobs[name]
	if job.Params != nil {
		views[0].Params, _ = plainjson.Marshal(job.Params) // a set with other ones is refused
	}
	payload, _ := job.EncodePayload() // as here
	if views[0].PayloadSize = len(payload); len(payload) <= limits.ListedPayload {
		views[0].Payload = payload
	}
	history, _, err := s.store.History(ctx, name, wire.Page{Limit: 1})
	if err != nil {
		return err
	}
	if len(history) > 0 && history[0].Until.IsZero() && row.Hash != "" {
		d := history[0]
		views[0].Definition = &wire.JobDefinition{Hash: d.Hash, Config: d.Config, Since: d.Since}
		if own := known.Hash(name); own != "" && own != row.Hash {
			views[0].Definition.Differs = true
			if views[0].Definition.Own, err = s.store.DefinitionID(ctx, own); err != nil {
				return err
			}
		}
	}
	pause, err := s.store.Paused(ctx)
	if err != nil {
		return err
	}
	views[0].Paused = pause.View()
	orders, more, err := s.store.Orders(ctx, wire.OrderFilter{Job: name, State: wire.OrderOpen, Page: wire.Page{Limit: jobOrders}})
	if err != nil {
		return err
	}
	for i := range orders {
		orders[i].Payload = nil
	}
	views[0].Orders, views[0].MoreOrders = orders, more != ""
	s.addJobReasons(ctx, views)
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

// runJob opens a manual trigger, with a payload of its own if the body has one. A run that the job's policies forbid is recorded as skipped, and is a conflict. While
// a lost attempt may still run, the refusal has "force", which starts the run as a parameter or in the body, unless
// another attempt was lost meanwhile. With "at" the run is ordered for that time.
func (s *server) runJob(w http.ResponseWriter, r *http.Request, q *query) error {
	var payload json.RawMessage
	var at *string
	force, err := readForced(w, r, q, map[string]any{"payload": &payload, "at": &at})
	if err != nil {
		return err
	}
	run := jobs.NewRun{By: by(r), Force: force}
	if is(payload) {
		run.Payload = payload
	}
	name := r.PathValue("name")
	if at != nil {
		return s.runAt(w, r, name, run, *at, payload)
	}
	trigger, task, err := s.Replica.RunJobWith(r.Context(), name, run)
	if errors.Is(err, jobs.ErrNotFound) {
		return s.unknownJob(r.Context(), name, err)
	}
	if err != nil {
		return unfit(err, "", len(payload))
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

// viewJob joins a job's row with its definition in this replica's configuration.
func viewJob(known upcoming, row ledger.JobStatus) wire.Job {
	v := row.Job
	if job, ok := known.Set.Jobs[row.Name]; ok {
		job = job.WithDefaults()
		handler, pool := job.Handler, known.Set.Pools[job.Pool]
		switch {
		case handler != nil:
		case job.Kind == "":
			handler = pool.Handler
		default:
			handler = pool.Kinds[job.Kind]
		}
		v.Description, v.Schedules, v.Timezone = job.Description, job.Specs(), job.Timezone
		v.StartsAt, v.EndsAt = job.StartsAt.UTC(), job.EndsAt.UTC()
		v.Calendars = wire.NewJobCalendars(job.Calendars)
		v.NextAt, v.NextStartAt = known.nextStart(row.Name, v.NextAt, v.NextStartAt)
		if job.Spread > 0 {
			v.Spread = job.Spread.String()
		}
		if job.Jitter > 0 {
			v.Jitter = job.Jitter.String()
		}
		v.Pool, v.Kind, v.Handler = job.Pool, job.Kind, describe(handler)
		v.Timeout, v.Concurrency, v.OnLost = job.Timeout.String(), job.Concurrency, job.OnLost
		if v.QueueLimit = job.QueueLimit; job.MaxRunning > 1 {
			v.MaxRunning = job.MaxRunning
		}
		if job.OnLost == jobs.LostRetries {
			v.LostLimit = job.LostLimit
		}
		v.CatchUp, v.Retries = wire.NewJobCatchUp(job.CatchUp), wire.NewJobRetries(job.Retries)
		locks, wait := known.Set.LocksOf(row.Name)
		if v.Locks = wire.NewJobLocks(locks); wait > 0 {
			v.LockWait = wait.String()
		}
		v.Notify = wire.NewJobNotify(job.Notify, describe)
		v.Output, v.Expect = wire.NewJobOutput(job.Output), wire.NewJobExpect(job.Expect)
		v.Priority, v.RunsOn, v.Labels = job.Priority, job.RunsOn, job.Labels
		v.Suspended, v.SuspendAfter = job.Suspend, job.SuspendAfter
		if v.Override != nil {
			v.SuspendedDefined = &job.Suspend
		}
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
