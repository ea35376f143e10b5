package jobs

import (
	"context"
	"io"
	"maps"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Wrap surrounds h with middleware: code that runs before and after each attempt, as for logs, traces
// or a transaction. The first one is outermost. What h is stays what it was, whatever the middleware
// returns: its identity, its description, its grace period, and whatever else it is: the result is a [Wrapper] of h.
//
// Middleware has no identity. That it was added, or what it does, is in no definition's hash, so
// replicas with and without it share the work. What decides what is done belongs into the handler.
//
// Wrap(nil) is nil, and so is what a middleware made nil of: [Set.Validate] reports it. A nil
// middleware is left out.
func Wrap(h Handler, around ...func(next Handler) Handler) Handler {
	if missing(h) {
		return h // as it is, for Set.Validate to name
	}
	run := h
	for i := len(around) - 1; i >= 0 && !missing(run); i-- {
		if around[i] != nil {
			run = around[i](run)
		}
	}
	if missing(run) {
		return nil
	}
	return wrapped{run, h}
}

// Wrap returns a copy of the set in which each handler is wrapped: those of jobs, pools and kinds, and
// those that notify.
func (s Set) Wrap(around ...func(next Handler) Handler) Set {
	s.Jobs, s.Pools = maps.Clone(s.Jobs), maps.Clone(s.Pools)
	for name, job := range s.Jobs {
		job.Handler, job.Notify.Handler = Wrap(job.Handler, around...), Wrap(job.Notify.Handler, around...)
		s.Jobs[name] = job
	}
	for name, pool := range s.Pools {
		pool.Handler, pool.Notify.Handler = Wrap(pool.Handler, around...), Wrap(pool.Notify.Handler, around...)
		pool.Kinds = maps.Clone(pool.Kinds)
		for kind, h := range pool.Kinds {
			pool.Kinds[kind] = Wrap(h, around...)
		}
		s.Pools[name] = pool
	}
	return s
}

// wrapped runs one handler and is another one.
type wrapped struct{ run, inner Handler }

func (w wrapped) Run(ctx context.Context, t Task, out io.Writer) error { return w.run.Run(ctx, t, out) }

func (w wrapped) Unwrap() Handler { return w.inner }

var _ unwrap.Wrapper[Handler] = Wrapper(nil)
