package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// whyOfJob says why a due time of a job, ?at= or the next one, ran or did not, or what may stop it. As for a task, the answer has what the store
// knows, without this replica's configuration and without the lock service, too.
func (s *server) whyOfJob(w http.ResponseWriter, r *http.Request, q *query) error {
	name, at := r.PathValue("name"), q.time("at")
	if q.err != nil {
		return q.err
	}
	u := s.upcoming()
	set := u.Set
	job, known := set.Jobs[name]
	job = job.WithDefaults()
	question := ledger.JobQuestion{Job: name, At: at}
	if known {
		question.Pool, question.Kind = job.Pool, job.Kind
	}
	never := false
	if at.IsZero() && job.Calendars.Any() { // the row may say when to look at what they leave out
		row, err := s.jobRow(r.Context(), name)
		if err != nil {
			return err
		}
		c, ok := u.first(name, row.NextAt, row.NextStartAt)
		if never = !ok; ok {
			question.At = c.At
		}
	}
	facts, err := s.store.WhyJob(r.Context(), question)
	if err != nil {
		return err
	}
	h := why.HereOfJob{Here: why.Here{Replica: s.Replica.ID()}, Known: known}
	if known {
		h, err = s.hereOfJob(r.Context(), u, name, job, facts)
		if err != nil {
			return err
		}
	}
	if never && !h.Differs { // the row has the time of a look alone
		facts.Row, facts.About = nil, time.Time{}
	}
	if d := facts.Definition; d != nil && (!d.Until.IsZero() || !known || h.Differs) {
		was, err := foresight.ReadShown(d.Definition)
		if err == nil { // else this program cannot read it
			h.Then, h.Delays = othersTimes(set, name, was)
		}
		if facts.Row != nil || d.Until.IsZero() { // else it is decided by the one that governs now
			h.InFile = was.Suspend
		}
	}
	if t := facts.Task; t != nil && !t.State.Ended() {
		if of, err := s.store.Why(r.Context(), t.ID); err == nil { // else it has ended, and is not kept
			h.Task = why.Explain(of, s.here(r.Context(), of)).Causes
		}
	}
	return reply(w, http.StatusOK, why.ExplainJob(facts, h))
}

// othersTimes is how a definition in the history tells its due times where those of the job are others now: its schedule without its calendars, nil if the
// times are the same. delays: its due times may have started later.
func othersTimes(set jobs.Set, name string, was foresight.Shown) (schedule *jobs.Schedule, delays bool) {
	if job, known := set.Jobs[name]; known {
		var calendars map[string]string
		if job.Calendars.Any() {
			calendars = set.Compiler().Calendars()
		}
		if is, err := foresight.ReadShown(job.ShownWithin(calendars)); err == nil && was.SameTimes(is) {
			return nil, false
		}
	}
	delays = was.Jitter > 0 || was.Calendars.Any()
	job := was.Job()
	job.Calendars = jobs.JobCalendars{}
	schedule, err := job.Compile(name)
	if err != nil {
		return nil, false
	}
	return schedule, delays
}

// hereOfJob is what this replica knows of a job of its configuration.
func (s *server) hereOfJob(ctx context.Context, u upcoming, name string, job jobs.Job, f ledger.JobFacts) (h why.HereOfJob, err error) {
	h.Here = s.hereOf(f.Next.Task)
	h.Known, h.Policy, h.Slots, h.InFile = true, job.Concurrency, job.MaxRunning, job.Suspend
	h.Differs = f.Job.Hash != "" && f.Job.Hash != u.Hash(name)
	if h.Zone, err = zone.Load(job.Timezone); err != nil {
		return h, err
	}
	if h.Schedule = u.Schedule(name); h.Schedule != nil && job.Jitter > 0 && u.namespace != nil {
		h.Starts = u.Starts(name, u.namespace).Of
	}
	if f.Row != nil {
		return h, nil
	}
	h.Locks = locksOf(u.Set, name, job)
	h.Holders, h.LockError = s.holdersOf(ctx, h.Locks)
	return h, nil
}

// locksOf are the keys that the tasks of a job need, as the lock service has them; those that cannot be made of its payload are left out.
func locksOf(set jobs.Set, name string, job jobs.Job) (keys []string) {
	all, _ := set.LocksOf(name)
	if len(all) == 0 {
		return nil
	}
	payload, err := job.EncodePayload()
	if err != nil {
		return nil
	}
	for _, l := range all {
		if l, err = l.ForPayload(payload); err != nil {
			continue
		}
		if key, err := syskeys.Full(l.Key, false); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
