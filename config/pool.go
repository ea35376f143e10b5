package config

import (
	"cmp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// poolDraft is a pool being read.
type poolDraft struct {
	jobs.Pool
	handlerDraft
	notify notifyDraft
}

var poolKeys = join(schema[poolDraft]{
	"description": textField(func(d *poolDraft) *string { return &d.Description }),
	"workers":     numberField(1, limits.Workers, func(d *poolDraft) *int { return &d.Workers }),
	"max_running": numberField(0, limits.MaxRunning, func(d *poolDraft) *int { return &d.MaxRunning }),
	"rate":        rateField(func(d *poolDraft) *jobs.Rate { return &d.Rate }),
	"burst":       numberField(0, limits.Burst, func(d *poolDraft) *int { return &d.Burst }),
	"per_key": func(r *reader, n *yaml.Node, d *poolDraft) {
		if r.isMap(n, "write {max_running: 1}, or rate and burst") {
			r.keyLimits(n, &d.PerKey)
		}
	},
	"per_kind": readPerKind,
	"order":    choiceField([]jobs.Order{jobs.OrderNone, jobs.OrderKey}, func(d *poolDraft) *jobs.Order { return &d.Order }),
	"fair": func(r *reader, n *yaml.Node, d *poolDraft) {
		d.Fair = &jobs.Fair{}
		if r.isMap(n, "write fair: {}, or fair: {weights: {KEY: 3}}") {
			object(r, n, fairKeys, d.Fair)
		}
	},
	"pause_on":   readPauseOn,
	"timeout":    durationField(positive, func(d *poolDraft) *time.Duration { return &d.Timeout }),
	"on_lost":    choiceField(onLost, func(d *poolDraft) *jobs.OnLost { return &d.OnLost }),
	"lost_limit": numberField(1, limits.LostLimit, func(d *poolDraft) *int { return &d.LostLimit }),
	"retries": func(r *reader, n *yaml.Node, d *poolDraft) {
		plain, _ := jobs.Set{}.Pool(r.path[1])
		retries := jobs.Retries{Limit: plain.Retries.Limit}
		readRetries(r, n, &retries)
		retries.Limit = cmp.Or(retries.Limit, jobs.NoRetries) // it says 0
		d.Retries = retries
	},
	"kinds":     readKinds,
	"runs_on":   mapField(func(d *poolDraft) *map[string]string { return &d.RunsOn }),
	"locks":     locksField(func(d *poolDraft) *[]jobs.Lock { return &d.Locks }),
	"lock_wait": durationField(positive, func(d *poolDraft) *time.Duration { return &d.LockWait }),
	"output":    section(outputKeys, func(d *poolDraft) *jobs.Output { return &d.Output }),
	"notify":    notifyField(func(d *poolDraft) *notifyDraft { return &d.notify }),
}, lift(poolHandlerKeys, func(d *poolDraft) *handlerDraft { return &d.handlerDraft }))

var perKeyKeys = schema[jobs.KeyLimits]{
	"max_running": numberField(0, limits.MaxRunning, func(l *jobs.KeyLimits) *int { return &l.MaxRunning }),
	"rate":        rateField(func(l *jobs.KeyLimits) *jobs.Rate { return &l.Rate }),
	"burst":       numberField(0, limits.Burst, func(l *jobs.KeyLimits) *int { return &l.Burst }),
}

var pauseOnKeys = schema[jobs.PauseOn]{
	"failures": field((*reader).percent, func(p *jobs.PauseOn) *int { return &p.Failures }),
	"of":       numberField(1, limits.PauseOn, func(p *jobs.PauseOn) *int { return &p.Of }),
}

var fairKeys = schema[jobs.Fair]{
	"weights": func(r *reader, n *yaml.Node, f *jobs.Fair) {
		f.Weights = map[string]int{}
		r.each(n, func(key, value *yaml.Node) {
			if weight, ok := r.number(value, 1, limits.Weight); ok {
				f.Weights[key.Value] = weight
			}
		})
	},
}

func (r *reader) readPools(n *yaml.Node) {
	r.each(n, func(key, value *yaml.Node) {
		named := r.reserve(&r.pools, key, value)
		var d poolDraft
		object(r, value, poolKeys, &d)
		r.burst(value, d.Rate, d.Burst)
		d.Handler = r.poolHandler(value, d.handlerDraft)
		d.Notify = d.notify.notify()
		if named {
			r.c.Set.Pools[key.Value] = d.Pool
		}
	})
}

// readPerKind reads limits by the task's kind.
func readPerKind(r *reader, n *yaml.Node, d *poolDraft) {
	d.PerKind = map[string]jobs.KindLimits{}
	kinds := names{kind: "kind", first: map[string]place{}}
	r.each(n, func(key, value *yaml.Node) {
		named := r.reserve(&kinds, key, value)
		var l jobs.KeyLimits
		switch {
		case !r.isMap(value, "limits stand below a kind, as in KIND: {max_running: 2}"):
		case empty(value) && len(deref(value).Content) == 0:
			r.fail(key, "sets nothing", "write max_running, rate or burst below it, or remove it")
		default:
			r.keyLimits(value, &l)
		}
		if named {
			d.PerKind[key.Value] = jobs.KindLimits(l)
		}
	})
}

// keyLimits reads the limits of a key or a kind.
func (r *reader) keyLimits(n *yaml.Node, l *jobs.KeyLimits) {
	object(r, n, perKeyKeys, l)
	r.burst(n, l.Rate, l.Burst)
}

// burst refuses a burst that stands in a map without a rate: it would have no effect.
func (r *reader) burst(n *yaml.Node, rate jobs.Rate, burst int) {
	if burst == 0 || rate != (jobs.Rate{}) {
		return
	}
	if rate := r.find(n, "rate"); rate != nil && deref(rate).Value != "0" { // it was refused
		return
	}
	at := r.find(n, "burst")
	r.within("burst", func() {
		r.fail(deref(at), "has no effect without a rate", "write one beside it, as in rate: 50/s, or remove it")
	})
}

// readPauseOn reads when a pool pauses itself. Both numbers have to be there.
func readPauseOn(r *reader, n *yaml.Node, d *poolDraft) {
	if !r.isMap(n, "write {failures: 50%, of: 20}") {
		return
	}
	if empty(n) && len(deref(n).Content) == 0 {
		r.fail(n, "sets nothing", "write {failures: 50%, of: 20}, or remove it")
		return
	}
	known := object(r, n, pauseOnKeys, &d.PauseOn)
	for _, part := range []struct {
		key, as string
		is      int
	}{{"failures", "failures: 50%", d.PauseOn.Failures}, {"of", "of: 20", d.PauseOn.Of}} {
		if part.is != 0 {
			continue
		}
		r.doubtful[pathText(r.path)+"."+part.key] = true
		if known && r.find(n, part.key) == nil {
			r.within(part.key, func() { r.fail(deref(n), "is missing", "write "+part.as) })
		}
	}
}

// readKinds reads handlers by the task's kind.
func readKinds(r *reader, n *yaml.Node, d *poolDraft) {
	d.Kinds = map[string]jobs.Handler{}
	kinds := names{kind: "kind", first: map[string]place{}}
	r.each(n, func(key, value *yaml.Node) {
		named := r.reserve(&kinds, key, value)
		var kind handlerDraft
		object(r, value, poolHandlerKeys, &kind)
		h := r.poolHandler(value, kind)
		if h == nil {
			r.fail(key, "has nothing to do", "give it command, shell, http, func or worker")
			h = unable{}
		}
		if named {
			d.Kinds[key.Value] = h
		}
	})
}
