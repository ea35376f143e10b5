package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// nextOfAll returns the next ?limit= due times of all jobs, in the order in which they start, those that do before ?until=. What is past is overdue. Those
// of a job that this replica's configuration does not have are the first one alone.
func (s *server) nextOfAll(w http.ResponseWriter, r *http.Request, q *query) error {
	limit, until := q.number("limit", paging.DefaultLimit, 1, paging.MaxLimit), q.time("until")
	if q.err != nil {
		return q.err
	}
	if s.Replica == (noReplica{}) {
		return needsReplica("due times need the definitions of the jobs")
	}
	u := s.upcoming()
	rows, err := s.store.NextDue(r.Context(), limit+min(u.WithCalendars(), mostLooks))
	if err != nil {
		return err
	}
	all, rows, err := s.comingJobs(r.Context(), u, rows, limit)
	if err != nil {
		return err
	}
	return replyList(w, http.StatusOK, u.dues(all, rows, until, limit), "", nil)
}

// mostLooks is how many rows are read beside those that are asked for, since they may be of jobs whose calendars are closed.
const mostLooks = 1000

// upcoming is what a replica knows of what is to come.
type upcoming struct {
	*foresight.Definitions
	namespace *string // of jitter; nil: it is not known
}

func (s *server) upcoming() upcoming {
	if r, is := s.Replica.(Defined); is {
		return upcoming{r.Definitions(), s.namespace()}
	}
	return upcoming{foresight.Compile(s.Replica.Set()), s.namespace()}
}

// first is a job with the due time that its row has next and, if that is known, when it starts. The time of a job with calendars may be that of
// a look at what they leave out: then it is the first one that starts from then on. False: there is none.
func (u upcoming) first(name string, at, start time.Time) (foresight.Coming, bool) {
	c := foresight.Coming{Due: foresight.Due{Job: name, At: at, Start: start}, Times: u.Schedule(name)}
	if start.IsZero() {
		c.Start = at
	}
	if at.IsZero() || c.Times == nil {
		return c, !at.IsZero()
	}
	c.Starts = u.Starts(name, u.namespace)
	if u.Set.Jobs[name].Calendars.Any() && start.IsZero() {
		return foresight.After(name, c.Times, c.Starts, at.Add(-time.Nanosecond))
	}
	return c, true
}

// comingJobs are the n jobs that start first, each with its first due time, and their rows in the same order. Given are n rows or more that come first. Those of
// jobs with calendars may be there for a look alone, and crowd out others: so the definitions say, too, who starts first from now on, and the rows
// of these are read. That is n rows at most, and no more schedules than have passed since the definitions were asked before. A job that these
// definitions do not have may be crowded out.
func (s *server) comingJobs(ctx context.Context, u upcoming, rows []ledger.NextDue, n int) ([]foresight.Coming, []ledger.NextDue, error) {
	byName := make(map[string]ledger.NextDue, n)
	var all []foresight.Coming
	for _, row := range rows {
		byName[row.Job] = row
		if c, ok := u.first(row.Job, row.At, row.StartAt); ok {
			all = append(all, c)
		}
	}
	for _, c := range u.First(u.namespace, time.Now(), n) {
		if _, is := byName[c.Job]; !is {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b foresight.Coming) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Job, b.Job))
	})
	all = all[:min(n, len(all))]
	var missing []string
	for _, c := range all {
		if _, is := byName[c.Job]; !is {
			missing = append(missing, c.Job)
		}
	}
	if len(missing) > 0 {
		more, err := s.store.Jobs(ctx, missing...)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range more {
			byName[row.Name] = ledger.NextDue{Job: row.Name, Suspended: row.Override, SkipNext: row.SkipNext}
		}
	}
	rows = make([]ledger.NextDue, len(all))
	for i, c := range all {
		rows[i] = byName[c.Job]
		rows[i].Job, rows[i].At, rows[i].StartAt = c.Job, c.At.UTC(), time.Time{}
		if c.Start.After(c.At) {
			rows[i].StartAt = c.Start.UTC()
		}
		if job, ok := u.Set.Jobs[c.Job]; ok && rows[i].Suspended == nil && job.Suspend {
			rows[i].Suspended = &job.Suspend
		}
	}
	return all, rows, nil
}

// dues are the first due times of jobs, each of which has its first one and its row; a zero until is no bound.
func (u upcoming) dues(all []foresight.Coming, rows []ledger.NextDue, until time.Time, limit int) []wire.JobDue {
	zones, suspended := map[string]*time.Location{}, map[string]bool{}
	for _, row := range rows {
		zones[row.Job], suspended[row.Job] = time.UTC, row.Suspended != nil && *row.Suspended
		if job, ok := u.Set.Jobs[row.Job]; ok {
			if z, err := zone.Load(job.Timezone); err == nil {
				zones[row.Job] = z
			}
		}
	}
	dues := make([]wire.JobDue, 0, limit)
	for d := range foresight.Merge(all) {
		if len(dues) == limit || !until.IsZero() && !d.Start.Before(until) {
			break
		}
		due := wire.JobDue{Job: d.Job, Due: wire.NewDue(d.At, zones[d.Job]), Suspended: suspended[d.Job]}
		if times := u.Schedule(d.Job); times != nil {
			due.AddStart(u.Set.Jobs[d.Job], d.Job, times, u.namespace)
		}
		dues = append(dues, due)
	}
	return dues
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
	name, u := r.PathValue("name"), s.upcoming()
	job, ok := u.Set.Jobs[name]
	if !ok {
		return notFound("the configuration of this replica has no job %s", quote(name))
	}
	zone, err := zone.Load(job.Timezone)
	if err != nil {
		return err
	}
	due := []wire.Due{}
	if times := u.Schedule(name); times != nil {
		due = wire.DueTimes(job, name, times, u.namespace, zone, time.Now(), n)
	}
	return replyList(w, http.StatusOK, due, "", nil)
}

// namespace is what the jitter of jobs is drawn in; nil: it is not known.
func (s *server) namespace() *string {
	if r, is := s.Replica.(Namespaced); is {
		if namespace, known := r.Namespace(); known {
			return &namespace
		}
	}
	return nil
}

// nextStart is when the row's next due time is and, if that is later, when it starts; zero if there is none.
func (u upcoming) nextStart(name string, at, start time.Time) (time.Time, time.Time) {
	c, ok := u.first(name, at, start)
	switch {
	case !ok:
		return time.Time{}, time.Time{}
	case start.IsZero() && !c.Start.After(c.At):
		return c.At.UTC(), time.Time{}
	}
	return c.At.UTC(), c.Start.UTC()
}
