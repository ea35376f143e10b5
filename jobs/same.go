package jobs

import (
	"maps"
	"reflect"
	"slices"
)

// sameAs is of handlers that can be told from all others of their type: Same reports whether the other one does the same in every run.
type sameAs interface{ Same(other Handler) bool }

// Same reports whether nothing tells two definitions apart, also nothing that is for people. Where that is not seen at little cost the answer is false: of a
// handler that is neither the same value nor says so.
func (j *Job) Same(as *Job) bool {
	return j.Description == as.Description && j.Schedule == as.Schedule && slices.Equal(j.Schedules, as.Schedules) && j.Timezone == as.Timezone &&
		j.StartsAt == as.StartsAt && j.EndsAt == as.EndsAt && j.Calendars.same(as.Calendars) && j.Spread == as.Spread && j.Jitter == as.Jitter &&
		j.Pool == as.Pool && sameHandler(j.Handler, as.Handler) && j.Kind == as.Kind && SameValue(j.Payload, as.Payload) && SameValue(j.Params, as.Params) &&
		j.Timeout == as.Timeout && j.Concurrency == as.Concurrency && j.MaxRunning == as.MaxRunning && j.QueueLimit == as.QueueLimit &&
		j.OnLost == as.OnLost && j.LostLimit == as.LostLimit && j.CatchUp == as.CatchUp && j.Retries.same(as.Retries) && j.Priority == as.Priority &&
		sameMap(j.RunsOn, as.RunsOn) && j.Suspend == as.Suspend && j.Output == as.Output && sameMap(j.Labels, as.Labels) &&
		j.Notify.same(as.Notify) && j.Expect == as.Expect && j.SuspendAfter == as.SuspendAfter && slices.Equal(j.Locks, as.Locks) && j.LockWait == as.LockWait
}

// Same is that of a job.
func (p *Pool) Same(as *Pool) bool {
	return p.Description == as.Description && p.Workers == as.Workers && p.MaxRunning == as.MaxRunning && p.Rate == as.Rate && p.Burst == as.Burst &&
		p.PerKey == as.PerKey && maps.Equal(p.PerKind, as.PerKind) && p.Order == as.Order && p.Fair.same(as.Fair) && p.PauseOn == as.PauseOn &&
		p.Timeout == as.Timeout && p.OnLost == as.OnLost && p.LostLimit == as.LostLimit && p.Retries.same(as.Retries) &&
		sameHandler(p.Handler, as.Handler) && maps.EqualFunc(p.Kinds, as.Kinds, sameHandler) && p.Notify.same(as.Notify) && p.Output == as.Output &&
		maps.Equal(p.RunsOn, as.RunsOn) && slices.Equal(p.Locks, as.Locks) && p.LockWait == as.LockWait
}

func (c JobCalendars) same(as JobCalendars) bool {
	return slices.Equal(c.Exclude, as.Exclude) && slices.Equal(c.Only, as.Only) && c.Otherwise == as.Otherwise
}

func (r Retries) same(as Retries) bool {
	return r.Limit == as.Limit && r.Backoff == as.Backoff && r.MaxBackoff == as.MaxBackoff && slices.Equal(r.On, as.On)
}

// same: no events and all of them are two things.
func (n Notify) same(as Notify) bool {
	return (n.On == nil) == (as.On == nil) && slices.Equal(n.On, as.On) && sameHandler(n.Handler, as.Handler)
}

// sameMap is maps.Equal, and a comparison of two pointers where both are one map, as those of jobs that a load has not read again.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

func (f *Fair) same(as *Fair) bool {
	if f == nil || as == nil {
		return f == as
	}
	return maps.Equal(f.Weights, as.Weights)
}

func sameHandler(a, b Handler) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	one := x.Type() == y.Type() && x.Kind() == reflect.Pointer && x.Pointer() == y.Pointer() && x.Type().Elem().Size() > 0
	if says, is := a.(sameAs); one || is && says.Same(b) {
		return true
	}
	switch {
	case x.Type() != y.Type() || x.Kind() == reflect.Pointer:
		return false
	case x.Kind() == reflect.Func: // a function value is an address, which those have in common that have captured the same
		return *(*uintptr)(addressable(x).Addr().UnsafePointer()) == *(*uintptr)(addressable(y).Addr().UnsafePointer())
	}
	return x.Comparable() && x.Equal(y)
}

// SameValue reports whether two payloads, or two Params, are one value of Go.
func SameValue(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.DeepEqual(a, b)
}
