package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
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
		"timezone":    func(r *reader, n *yaml.Node, d *jobDraft) { r.zone(n, &d.Timezone) },
		"jitter":      delayField(time.Millisecond, func(d *jobDraft) *time.Duration { return &d.Jitter }),
		"spread":      delayField(time.Second, func(d *jobDraft) *time.Duration { return &d.Spread }),
		"timeout":     durationField(positive, func(d *jobDraft) *time.Duration { return &d.Timeout }),
		"concurrency": choiceField(concurrency, func(d *jobDraft) *jobs.Concurrency { return &d.Concurrency }),
		"max_running": numberField(1, limits.MaxRunning, func(d *jobDraft) *int { return &d.MaxRunning }),
		"queue_limit": numberField(1, limits.QueueLimit, func(d *jobDraft) *int { return &d.QueueLimit }),
		"on_lost":     choiceField(onLost, func(d *jobDraft) *jobs.OnLost { return &d.OnLost }),
		"lost_limit":  numberField(1, limits.LostLimit, func(d *jobDraft) *int { return &d.LostLimit }),
		"expect":      section(expectKeys, func(d *jobDraft) *jobs.Expect { return &d.Expect }),
		"catch_up":    section(catchUpKeys, func(d *jobDraft) *jobs.CatchUp { return &d.CatchUp }),
		"calendars":   section(jobCalendarKeys, func(d *jobDraft) *jobs.JobCalendars { return &d.Calendars }),
		"retries":     func(r *reader, n *yaml.Node, d *jobDraft) { readRetries(r, n, &d.Retries) },
		"priority":    numberField(-limits.Priority, limits.Priority, func(d *jobDraft) *int { return &d.Priority }),
		"runs_on":     mapField(func(d *jobDraft) *map[string]string { return &d.RunsOn }),
		"labels":      mapField(func(d *jobDraft) *map[string]string { return &d.Labels }),
		"output":      section(outputKeys, func(d *jobDraft) *jobs.Output { return &d.Output }),
		"suspend":     flagField(func(d *jobDraft) *bool { return &d.Suspend }),
		"pool":        nameField(func(d *jobDraft) *string { return &d.Pool }),
		"notify":      notifyField(func(d *jobDraft) *notifyDraft { return &d.notify }),

		"suspend_after": numberField(0, limits.SuspendAfter, func(d *jobDraft) *int { return &d.SuspendAfter }),
	}, lift(processKeys, jobHandler))

	jobKeys = join(schema[jobDraft]{
		"description": textField(func(d *jobDraft) *string { return &d.Description }),
		"schedule":    readSchedule,
		"schedules":   listField(func(d *jobDraft) *[]string { return &d.Schedules }),
		"starts_at":   momentField(func(d *jobDraft) *time.Time { return &d.StartsAt }),
		"ends_at":     momentField(func(d *jobDraft) *time.Time { return &d.EndsAt }),
		"kind":        nameField(func(d *jobDraft) *string { return &d.Kind }),
		"payload":     func(r *reader, n *yaml.Node, d *jobDraft) { d.Payload = r.payload(n) },
		"params":      func(r *reader, n *yaml.Node, d *jobDraft) { d.Params = r.payload(n) },
		"locks":       locksField(func(d *jobDraft) *[]jobs.Lock { return &d.Locks }),
		"lock_wait":   durationField(positive, func(d *jobDraft) *time.Duration { return &d.LockWait }),
	}, jobPolicyKeys, lift(doingKeys, jobHandler))
)

func jobHandler(d *jobDraft) *handlerDraft { return &d.handlerDraft }

var expectKeys = schema[jobs.Expect]{
	"start_within":  durationField(positive, func(e *jobs.Expect) *time.Duration { return &e.StartWithin }),
	"finish_within": durationField(positive, func(e *jobs.Expect) *time.Duration { return &e.FinishWithin }),
}

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
	"on":          readCodes,
}

// readCodes reads after which codes a task is tried again. An empty list is as none, and so undoes that of defaults.
func readCodes(r *reader, n *yaml.Node, retries *jobs.Retries) {
	retries.On = nil
	path := pathText(r.path)
	r.items(n, func(item *yaml.Node) {
		code, ok := r.number(item, 1, limits.Code)
		switch {
		case !ok:
			r.doubtful[path] = true
		case slices.Contains(retries.On, code):
			r.doubtful[path] = true
			r.fail(deref(item), quote(item)+" is given twice", "remove one")
		default:
			retries.On = append(retries.On, code)
		}
	})
}

// readRetries reads how often, and after which waits, a task is tried again.
func readRetries(r *reader, n *yaml.Node, retries *jobs.Retries) {
	if r.isMap(n, "write {limit: 5}") {
		object(r, n, retriesKeys, retries)
	}
}

// hasCodes reports whether a job itself says after which codes it is retried.
func (r *reader) hasCodes(job *yaml.Node) (has bool) {
	if retries := r.find(job, "retries"); retries != nil && deref(retries).Kind == yaml.MappingNode {
		has = r.find(retries, "on") != nil
	}
	return has
}

// dropDefaultCodes takes the codes of defaults away from a job that they have no effect on: they are for those that are retried, and whose failures
// have codes.
func (r *reader) dropDefaultCodes(job *jobs.Job) {
	h := job.Handler
	if pool := r.c.Set.Pools[job.WithDefaults().Pool]; h == nil {
		if h = pool.Handler; job.Kind != "" {
			h = pool.Kinds[job.Kind]
		}
	}
	if _, coded := unwrap.As[jobs.Coded](h); job.Retries.Limit == 0 || h != nil && !coded {
		job.Retries.On = nil
	}
}

// outputKeys say what becomes of outputs.
var outputKeys = schema[jobs.Output]{
	"keep":      field((*reader).kept, func(o *jobs.Output) *int { return &o.Keep }),
	"file":      field((*reader).outputFile, func(o *jobs.Output) *string { return &o.File }),
	"file_size": field((*reader).size, func(o *jobs.Output) *int { return &o.FileSize }),
	"files":     numberField(1, limits.OutputFiles, func(o *jobs.Output) *int { return &o.Files }),
}

// kept reads how much of an output is kept; what is the default of all replicas is left to them.
func (r *reader) kept(n *yaml.Node) (int, bool) {
	keep, ok := r.size(n)
	if keep == limits.KeptOutput {
		keep = 0
	}
	return keep, ok
}

// outputFile reads a path whose fields are filled in for each attempt; "" undoes that of defaults.
func (r *reader) outputFile(n *yaml.Node) (string, bool) {
	path, ok := r.text(n)
	if path == "" {
		return "", ok
	}
	return r.absolute(path), ok
}

var concurrency = []jobs.Concurrency{jobs.Allow, jobs.Forbid, jobs.Queue, jobs.Replace}

// dropDefaultDelays takes the spread and jitter of defaults away from a job that they have no effect on.
func (r *reader) dropDefaultDelays(job *yaml.Node, j *jobs.Job) {
	if j.Spread > 0 && !j.Recurs() && r.find(job, "spread") == nil {
		j.Spread = 0
	}
	if j.Jitter > 0 && len(j.Specs()) == 0 && r.find(job, "jitter") == nil {
		j.Jitter = 0
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

// zone reads the name of a time zone.
func (r *reader) zone(n *yaml.Node, into *string) {
	value, ok := r.text(n)
	if !ok {
		return
	}
	if _, err := zone.Load(value); err != nil {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		r.fail(n, problem, hint)
		return
	}
	*into = value
}

// dropDefaultSlots takes the max_running and the queue_limit of defaults away from a job on which they have no effect, as its concurrency is another one.
func (r *reader) dropDefaultSlots(job *yaml.Node, d *jobs.Job) {
	if r.defaults.MaxRunning != 0 && d.Concurrency == jobs.Allow && r.find(job, "max_running") == nil {
		d.MaxRunning = 0
	}
	if r.defaults.QueueLimit != 0 && d.Concurrency != jobs.Queue && r.find(job, "queue_limit") == nil {
		d.QueueLimit = 0
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
