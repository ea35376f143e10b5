package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// overrideJob suspends a job, until a time if "until" is in the body, or resumes it; "reset" clears the override.
func overrideJob(suspended bool) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, q *query) error {
		reset, too, o := q.truth("reset"), false, ledger.Suspension{Suspended: &suspended}
		keys, until := map[string]any{"reset": &too}, (*string)(nil)
		if suspended {
			keys["until"] = &until
		}
		err := readKeys(w, r, q, keys)
		if err == nil {
			o.Until, err = readEnd(until, reset || too)
		}
		if err != nil {
			return err
		}
		if reset || too {
			o.Suspended = nil
		}
		name := r.PathValue("name")
		set, err := s.store.SuspendJobs(r.Context(), []string{name}, by(r), o)
		if err == nil && len(set) == 0 {
			err = notFound("no live configuration has a job %s", quote(name))
		}
		if err != nil {
			return unfit(err, "", 0)
		}
		s.Replica.Wake()
		return s.replyJob(r.Context(), w, name)
	}
}

// readEnd reads the end of an override; zero for nil. An empty text is none: a variable that is not set would suspend for ever.
func readEnd(text *string, reset bool) (time.Time, error) {
	switch {
	case text == nil:
		return time.Time{}, nil
	case *text == "":
		return time.Time{}, invalid("until", "is empty; leave it out for no end")
	}
	at, err := readTime(*text, "until")
	switch {
	case err != nil:
		return at, err
	case outOfEra(at):
		return at, invalid("until", "year %d is out of range 1970–2199", at.Year())
	case reset:
		return at, malformed("until", "reset clears the override at once; send one of them")
	}
	return at.Truncate(time.Microsecond), nil
}

const (
	suspendBatch = 500 // of one transaction
	suspendShown = 100
)

// overrideJobs suspends or resumes all jobs with some labels, as this replica's configuration has them. Which that are is found out first; they
// are then set in several transactions. It may be repeated.
func overrideJobs(suspended bool) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, q *query) error {
		var many wire.SuspendMany
		keys, until := map[string]any{"labels": &many.Labels, "reset": &many.Reset, "dry_run": &many.DryRun}, (*string)(nil)
		if suspended {
			keys["until"] = &until
		}
		if err := readKeys(w, r, q, keys); err != nil {
			return err
		}
		o := ledger.Suspension{Suspended: &suspended}
		var err error
		if o.Until, err = readEnd(until, many.Reset); err != nil {
			return err
		}
		if many.Reset {
			o.Suspended = nil
		}
		if err := checkLabels(many.Labels); err != nil {
			return err
		}
		if s.Replica == (noReplica{}) {
			return needsReplica("labels need the definitions of the jobs")
		}
		var names []string
		for name, job := range s.Replica.Set().Jobs {
			if ledger.Matches(many.Labels, job.Labels) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		done := wire.SuspendedMany{Matched: len(names), Jobs: []string{}, DryRun: many.DryRun}
		for part := range slices.Chunk(names, suspendBatch) {
			set := part
			if !many.DryRun {
				if set, err = s.store.SuspendJobs(r.Context(), part, by(r), o); err != nil {
					return unfit(err, "", 0)
				}
			}
			done.Done += len(set)
			done.Jobs = append(done.Jobs, set[:min(len(set), suspendShown-len(done.Jobs))]...)
		}
		if done.Done > 0 && !many.DryRun {
			s.Replica.Wake()
		}
		return reply(w, http.StatusOK, done)
	}
}

// checkLabels refuses no labels: all jobs would be meant.
func checkLabels(labels map[string]string) error {
	if len(labels) == 0 || len(labels) > limits.Labels {
		return invalid("labels", `must be 1 to %d labels that the jobs have, as in {"team": "infra"}`, limits.Labels)
	}
	for path, problem := range naming.LabelProblems(labels) {
		return invalid("labels"+path, "%s", problem)
	}
	return nil
}

// skipNext has the next "n" due times of a job skipped, 1 unless the body says so; 0 undoes it. A job without a schedule has none: 409.
func (s *server) skipNext(w http.ResponseWriter, r *http.Request, q *query) error {
	n := 1
	var given *int
	if err := readKeys(w, r, q, map[string]any{"n": &given}); err != nil {
		return err
	}
	if given != nil {
		n = *given
	}
	if n < 0 || n > ledger.MostSkipped {
		return invalid("n", "must be a whole number from 0 to %d; to skip more, suspend the job", ledger.MostSkipped)
	}
	name := r.PathValue("name")
	if n > 0 {
		if scheduled, err := s.scheduled(r.Context(), name); err != nil || !scheduled {
			return cmp.Or(err, conflict("job %s has no schedule: it runs on demand, and has no due time to skip", quote(name)))
		}
	}
	if err := s.store.SkipNext(r.Context(), name, by(r), n); err != nil {
		return err
	}
	return s.replyJob(r.Context(), w, name)
}

// scheduled reports whether a job has a schedule, by the definition that governs, or else by that of this replica; true if neither is known.
func (s *server) scheduled(ctx context.Context, name string) (bool, error) {
	history, _, err := s.store.History(ctx, name, wire.Page{Limit: 1})
	if err != nil {
		return false, err
	}
	if len(history) > 0 && history[0].Until.IsZero() {
		if shown, err := foresight.ReadShown(history[0].Definition); err == nil {
			return len(shown.Schedules) > 0, nil
		}
	}
	job, known := s.Replica.Set().Jobs[name]
	return !known || len(job.Specs()) > 0, nil
}
