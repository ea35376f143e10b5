package judge

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	// seen is how long a decision may take between its reads and its writes.
	seen = 5 * time.Second
	// answered is how long after its client gave up a call may still take effect.
	answered = 11 * time.Second
)

// reasons is the part of I1 that checks the reasons of the ledger: a due time is skipped for a task of the same
// job that existed and had not ended, and that ran at the named place and time; for an attempt of the job that
// was lost before and whose deadline had not passed; while a client had the job suspended; because a client
// cancelled its own task; as a calendar leaves it out; as the queue was full; or as a newer run of the job took its place, see replaced. A cancelled run was cancelled by a client, or
// replaced, too.
func (t *trial) reasons() {
	if len(t.h.Audit) == 0 {
		return // reported as vacuous
	}
	w := witness{
		trial: t, began: map[string]time.Time{}, ended: map[string]time.Time{}, at: map[string]int64{}, written: t.ledgerRows(),
		suspended: t.suspensions(), cancels: map[string][]time.Time{}, born: map[string]int64{},
	}
	for _, c := range t.h.Audit {
		switch {
		case c.Before != nil || c.After == nil:
		case c.Table == "done":
			w.ended[c.After.ID] = dbTime(c.At)
		case c.Table == "tasks":
			w.began[c.After.ID], w.at[c.After.ID], w.born[c.After.ID] = dbTime(c.At), c.After.At, c.Seq
		}
	}
	for _, a := range t.h.Asks {
		if a.What == "cancel" && a.Answer != "refused" {
			w.cancels[a.Target] = append(w.cancels[a.Target], a.Called)
		}
	}
	for _, r := range t.h.Final.Triggers {
		job, known := t.jobs[r.Job]
		if !known {
			continue
		}
		decided, why := dbTime(r.DecidedAt), ""
		switch {
		case r.Outcome == "skipped":
			why = w.skipped(r, job)
		case r.Outcome == "ran" && r.Result == "cancelled" && r.Code == codeReplace:
			why = w.replaced(r, job)
		case r.Outcome == "ran" && r.Result == "cancelled" && r.Code == codeRemoved:
			why = w.removed(r, job)
		case r.Outcome == "ran" && r.Result == "cancelled":
			why = w.cancelled(r)
		}
		if why != "" {
			t.violate(Accounted, subject(r), decided, "%s with reason %q: %s", r.Outcome, r.Reason, why)
		}
	}
}

// stay is an interval.
type stay struct{ from, to time.Time }

// suspensions are the times in which a job may have been suspended by clients: from the call until the answer
// to the first call that surely ended it.
func (t *trial) suspensions() map[string][]stay {
	all := map[string][]stay{}
	for _, a := range t.h.Asks {
		if a.What != "suspend" || a.Answer == "refused" {
			continue
		}
		done := a.Returned
		if a.Answer != "ok" {
			done = done.Add(answered)
		}
		s := stay{a.Called, t.run.Ended.Add(time.Hour)}
		for _, r := range t.h.Asks {
			if r.What == "resume" && r.Target == a.Target && r.Answer == "ok" && !r.Called.Before(done) {
				s.to = minTime(s.to, r.Returned)
			}
		}
		all[a.Target] = append(all[a.Target], s)
	}
	return all
}

// witness has what was true when a row was decided.
type witness struct {
	*trial
	began, ended map[string]time.Time // tasks, in database time
	at           map[string]int64     // tasks → due time
	written      map[ledgerKey]history.Change
	suspended    map[string][]stay
	cancels      map[string][]time.Time // task → when clients asked for it
	born         map[string]int64       // tasks → Seq of their first row
}

// skipped returns what is wrong with the reason of a skipped row.
func (w witness) skipped(r history.Row, job history.Job) string {
	stands := r.Reason
	if r.Code == codeFull {
		stands = fullWords.ReplaceAllString(stands, "")
	}
	said, slot := readHolder(stands)
	began, end := w.began[said.task], w.ended[said.task]
	decided := dbTime(r.DecidedAt)
	switch {
	case r.Reason == "cancelled":
		return w.cancelled(r)
	case r.Code == codeCalendar:
		return w.leftOut(r, job)
	case r.Code == codeRemoved:
		return w.removed(r, job)
	case r.Code == codeSkip: // how many, the row of the job says, see skips
	case r.Reason == "suspended", r.Reason == "suspended while it waited for a slot":
		return w.asked(r)
	case job.Concurrency == "allow":
		return "nothing excludes it"
	case r.Code == codeReplace:
		return w.replaced(r, job)
	case r.Code == codeFull && (job.Concurrency != "queue" || stands == r.Reason):
		return "it has no queue, or that is not how long it is"
	case r.Code == codeFull && lostMayRun.MatchString(stands): // how full it is, the slots say
	case r.Code != codeFull && (job.Concurrency == "queue" || job.Concurrency == "replace"):
		return "it waits for its slot, or replaces"
	case lostMayRun.MatchString(r.Reason):
		if !w.mayStillRun(r) {
			return "no attempt was lost whose time was not over"
		}
	case !slot:
		return "that is none"
	case began.IsZero() || w.tasks[said.task] != r.Job:
		return "it has no such task"
	case dbTime(w.at[said.task]).UTC().Format(time.RFC3339Nano) != said.run:
		return "its task is of another due time"
	case said.replica != "" && !w.ranThere(said):
		return "no attempt of it began there, then"
	case !w.steps() && began.After(decided.Add(seen+w.run.Slack)):
		return "it came " + ms(began.Sub(decided)).String() + " later"
	case !end.IsZero() && !w.steps() && end.Before(decided.Add(-seen-w.run.Slack)):
		return "it ended " + cmp.Or(ms(decided.Sub(end)), seen).String() + " before"
	}
	return ""
}

// fullWords is how a reason says that the queue is full; what has the slot comes after it.
var fullWords = regexp.MustCompile(`^\d+ runs of the job wait for a slot, as many as queue_limit allows; `)

// lostMayRun is how a reason says that lost attempts have the slot.
var lostMayRun = regexp.MustCompile(`^(a lost attempt|[2-9]\d* lost attempts) may run until `)

// asked returns what is wrong with a suspension.
func (w witness) asked(r history.Row) string {
	all, decided := w.suspended[r.Job], dbTime(cmp.Or(r.FinishedAt, r.DecidedAt)) // what waited for a slot was skipped at its end
	switch {
	case len(all) == 0:
		return "no client requested it"
	case !w.sameClock(w.written[keyOf(r)].Seq):
		return ""
	case !slices.ContainsFunc(all, func(s stay) bool {
		return !decided.Before(s.from.Add(-seen-w.run.Slack)) && !decided.After(s.to.Add(clockError))
	}):
		return "it was not, then"
	}
	return ""
}

// mayStillRun reports whether a lost attempt of the row's job had not reached its deadline. Losing one and
// deciding lock the job's row, so the audit has them in order.
func (w witness) mayStillRun(r history.Row) bool {
	row := w.written[keyOf(r)]
	return slices.ContainsFunc(w.losses(), func(l loss) bool {
		c := w.claims[claimKey{l.task, l.token}]
		return l.job == r.Job && l.seq < row.Seq && c != nil && c.until.After(dbTime(r.DecidedAt))
	})
}

// cancelled returns what is wrong with a cancelled task.
func (w witness) cancelled(r history.Row) string {
	asks, end := w.cancels[r.TaskID], w.ended[r.TaskID]
	switch {
	case r.TaskID == "":
		return "it had no task"
	case len(asks) == 0:
		return "no client requested it"
	case !end.IsZero() && !w.steps() && slices.MinFunc(asks, time.Time.Compare).After(end.Add(clockError)):
		return "no client had requested it"
	}
	return ""
}
