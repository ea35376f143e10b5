package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// jobDraft is a job being read: first the file's defaults, then the job's own keys.
type jobDraft struct {
	jobs.Job
	handlerDraft
	notify notifyDraft
}

var (
	// jobPolicyKeys are the keys of jobs that defaults may have too.
	jobPolicyKeys = join(schema[jobDraft]{
		"timezone":    readTimezone,
		"timeout":     durationField(positive, func(d *jobDraft) *time.Duration { return &d.Timeout }),
		"concurrency": readConcurrency,
		"queue_limit": notYet[jobDraft](only("10"), "concurrency: queue comes with a later release"),
		"on_lost":     choiceField(onLost, func(d *jobDraft) *jobs.OnLost { return &d.OnLost }),
		"lost_limit":  numberField(1, limits.LostLimit, func(d *jobDraft) *int { return &d.LostLimit }),
		"catch_up":    section(catchUpKeys, func(d *jobDraft) *jobs.CatchUp { return &d.CatchUp }),
		"retries":     func(r *reader, n *yaml.Node, d *jobDraft) { readRetries(r, n, &d.Retries) },
		"runs_on":     mapField(func(d *jobDraft) *map[string]string { return &d.RunsOn }),
		"labels":      mapField(func(d *jobDraft) *map[string]string { return &d.Labels }),
		"suspend":     flagField(func(d *jobDraft) *bool { return &d.Suspend }),
		"pool":        nameField(func(d *jobDraft) *string { return &d.Pool }),
		"notify":      notifyField(func(d *jobDraft) *notifyDraft { return &d.notify }),
	}, lift(processKeys, jobHandler))

	jobKeys = join(schema[jobDraft]{
		"description": textField(func(d *jobDraft) *string { return &d.Description }),
		"schedule":    readSchedule,
		"schedules":   listField(func(d *jobDraft) *[]string { return &d.Schedules }),
		"kind":        nameField(func(d *jobDraft) *string { return &d.Kind }),
		"payload":     func(r *reader, n *yaml.Node, d *jobDraft) { d.Payload = r.payload(n) },
		"locks":       locksField(func(d *jobDraft) *[]jobs.Lock { return &d.Locks }),
		"lock_wait":   durationField(positive, func(d *jobDraft) *time.Duration { return &d.LockWait }),
	}, jobPolicyKeys, lift(doingKeys, jobHandler))
)

func jobHandler(d *jobDraft) *handlerDraft { return &d.handlerDraft }

var catchUpKeys = schema[jobs.CatchUp]{
	"policy": choiceField([]jobs.CatchUpPolicy{jobs.CatchUpNone, jobs.CatchUpLatest, jobs.CatchUpAll}, func(c *jobs.CatchUp) *jobs.CatchUpPolicy { return &c.Policy }),
	"window": durationField(positive, func(c *jobs.CatchUp) *time.Duration { return &c.Window }),
	"limit":  numberField(1, limits.CatchUp, func(c *jobs.CatchUp) *int { return &c.Limit }),
	"grace":  durationField(positive, func(c *jobs.CatchUp) *time.Duration { return &c.Grace }),
}

var retriesKeys = schema[jobs.Retries]{
	"limit":       numberField(0, limits.Retries, func(c *jobs.Retries) *int { return &c.Limit }),
	"backoff":     durationField(positive, func(c *jobs.Retries) *time.Duration { return &c.Backoff }),
	"max_backoff": durationField(positive, func(c *jobs.Retries) *time.Duration { return &c.MaxBackoff }),
}

// readRetries reads how often, and after which waits, a task is tried again.
func readRetries(r *reader, n *yaml.Node, retries *jobs.Retries) {
	if r.isMap(n, "write {limit: 5}") {
		object(r, n, retriesKeys, retries)
	}
}

var onLost = []jobs.OnLost{jobs.LostFails, jobs.LostRetries}

// join merges schemas with different keys.
func join[T any](parts ...schema[T]) schema[T] {
	whole := schema[T]{}
	for _, part := range parts {
		maps.Copy(whole, part)
	}
	return whole
}

// lift turns a schema of a part of T into one of T.
func lift[T, S any](s schema[S], place func(*T) *S) schema[T] {
	whole := make(schema[T], len(s))
	for key, field := range s {
		whole[key] = func(r *reader, n *yaml.Node, into *T) { field(r, n, place(into)) }
	}
	return whole
}

func readSchedule(r *reader, n *yaml.Node, d *jobDraft) {
	if deref(n).Kind == yaml.SequenceNode {
		r.fail(n, "must be one expression", "schedules: takes a list")
		return
	}
	value, ok := r.text(n)
	if ok && strings.TrimSpace(value) == "" {
		r.fail(n, "is empty", "remove the key for a job that runs on demand only")
		return
	}
	d.Schedule = value
}

func readTimezone(r *reader, n *yaml.Node, d *jobDraft) {
	value, ok := r.text(n)
	if !ok {
		return
	}
	if _, err := zone.Load(value); err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.fail(n, problem, hint)
		return
	}
	d.Timezone = value
}

func readConcurrency(r *reader, n *yaml.Node, d *jobDraft) {
	switch value := deref(n).Value; jobs.Concurrency(value) {
	case "replace", "queue":
		r.fail(n, fmt.Sprintf("not yet: concurrency: %s comes with a later release", value), "allow or forbid")
	default:
		choiceField([]jobs.Concurrency{jobs.Allow, jobs.Forbid}, func(d *jobDraft) *jobs.Concurrency { return &d.Concurrency })(r, n, d)
	}
}

// readDefaults reads the defaults of all jobs.
func (r *reader) readDefaults(n *yaml.Node) {
	r.each(n, func(key, value *yaml.Node) {
		_, own := jobKeys[key.Value]
		switch field, known := jobPolicyKeys[key.Value]; {
		case known:
			field(r, value, &r.defaults)
		case own:
			r.fail(key, "belongs into each job", "defaults are for policies and environment")
		case !strings.HasPrefix(key.Value, "x-"):
			r.unknown(key, slices.Sorted(maps.Keys(jobPolicyKeys)))
		}
	})
}

func (r *reader) readJobs(n *yaml.Node) {
	if len(r.c.Set.Jobs) == 0 { // allocate once: there may be 100,000 jobs
		r.c.Set.Jobs = make(map[string]jobs.Job, len(deref(n).Content)/2)
		r.jobs.first = make(map[string]place, len(deref(n).Content)/2)
	}
	r.each(n, func(key, value *yaml.Node) {
		named := r.reserve(&r.jobs, key, value)
		d := r.defaults
		object(r, value, jobKeys, &d)
		d.Handler = r.handler(value, d.handlerDraft)
		d.Notify = d.notify.notify()
		if named {
			r.c.Set.Jobs[key.Value] = d.Job
		}
	})
}
