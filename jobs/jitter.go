package jobs

import "time"

// Starts is when the triggers of a job start: when they fire, see [Schedule.Fires], or, with [Job.Jitter], later by less than it, drawn for each
// due time. It is a pure function of namespace, job, jitter and schedule: all replicas agree, and so do those that start later.
//
// A trigger starts before the next one fires, so starts have the order of due times: where two are closer to each other than the
// jitter, as at a jump of the clock, the start of the first one is drawn from the time between them. The zero value is of a job
// without schedule.
type Starts struct {
	times  *Schedule
	jitter time.Duration
	of     string // namespace and job
}

// Starts says when the triggers of the job start that has this name in its set, by its compiled schedule. The namespace
// tells clusters apart: the set's name or, without one, the store's own.
func (j Job) Starts(times *Schedule, name, namespace string) Starts {
	if j.Jitter < jitterUnit || times == nil {
		return Starts{times: times}
	}
	return Starts{times, j.Jitter, namespace + "\n" + name + "\n"}
}

// Of returns when the trigger of a due time that runs starts. For one that another due time runs for, see OtherwiseNext, it is when that one fires.
func (s Starts) Of(due time.Time) time.Time {
	if s.times == nil {
		return due
	}
	fires := s.times.Fires(due)
	if s.jitter == 0 {
		return fires
	}
	within := s.By(due).Sub(fires) / jitterUnit
	if within == 0 { // another due time fires then: with OtherwiseNext, for this one, too
		return fires
	}
	return fires.Add(time.Duration(choose(s.of+rfc3339(due), uint64(within))) * jitterUnit)
}

// By returns a time before which the trigger of a due time starts, whatever the namespace. Without jitter that is when it starts.
func (s Starts) By(due time.Time) time.Time {
	end := s.times.Fires(due).Add(s.jitter)
	if s.jitter == 0 {
		return end
	}
	if next := s.times.Fires(s.times.Next(due)); !next.IsZero() && next.Before(end) {
		return next
	}
	return end
}

// jitterUnit is what jitter is drawn in. Due times are further apart.
const jitterUnit = time.Millisecond

// Begun returns a time up to which exactly those due times are that start by t. Without jitter that is Fired of the schedule.
func (s Starts) Begun(t time.Time) time.Time {
	fired := s.times.Fired(t)
	if s.jitter == 0 {
		return fired
	}
	// A due time before the last one that has fired starts before that one fires.
	for _, last := range s.times.Latest(s.times.Fired(t.Add(-s.jitter)), fired, 1) {
		if s.Of(last).After(t) {
			return last.Add(-time.Nanosecond)
		}
	}
	return fired
}

// Wakes returns when to decide what is due after cursor, as Wakes of the schedule, and, with jitter, the due time that starts then; zero: it is a time to
// decide about due times that are left out.
func (s Starts) Wakes(cursor time.Time) (due, at time.Time) {
	at = s.times.Wakes(cursor)
	if s.jitter == 0 || at.IsZero() {
		return time.Time{}, at
	}
	if next := s.times.Next(cursor); at.Equal(s.times.Fires(next)) {
		return next, s.Of(next)
	}
	return time.Time{}, at
}
