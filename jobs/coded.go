package jobs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Coded handlers give their failures codes, as an [*ExitError] or a [*StatusError], and [Retries.On] chooses by these. Those of packages exechandler and
// httphandler are. Others may be: one that runs a program, say.
type Coded interface {
	// Codes are those that a failure may have, from low to high, and that of an attempt whose timeout is over. They are always the same.
	Codes() (low, high, timeout int)
}

// StatusError is a request over HTTP that failed with a status.
type StatusError struct {
	Status int
	// NoAnswer: no answer had the status. It is what a proxy would have answered: 502 for a connection that was not made or that broke, 504 for an
	// answer that did not come in time.
	NoAnswer bool
	Text     string // for people
}

func (e *StatusError) Error() string { return e.Text }

// FailureCode is the code of an error for [Retries.On]: the exit code or 128 + the signal of an [*ExitError] in its chain, else the status of a
// [*StatusError]; 0: it has none.
func FailureCode(err error) int {
	if exit, ok := errors.AsType[*ExitError](err); ok {
		if exit.Code < 0 && exit.Signal > 0 {
			return 128 + exit.Signal
		}
		return max(exit.Code, 0)
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status
	}
	return 0
}

// codesOfJob checks the codes after which a job is retried.
func (p *problems) codesOfJob(path string, job Job, pool Pool) {
	path += ".retries.on"
	if !p.codes(path, job.Retries.On) {
		return
	}
	if job.Retries.Limit <= 0 {
		p.add(path, "has no effect, as the job is not retried; write a limit above 0 beside it, or remove it")
		return
	}
	h := job.Handler
	if h == nil {
		if h = pool.Handler; job.Kind != "" {
			h = pool.Kinds[job.Kind]
		}
	}
	if h != nil {
		p.codesOf(path, job.Retries.On, h)
	}
}

// codesOfPool checks the codes after which tasks of a pool are retried. They may be for some of its handlers.
func (p *problems) codesOfPool(path string, pool Pool) {
	path += ".retries.on"
	if !p.codes(path, pool.Retries.On) {
		return
	}
	var all []Handler
	if pool.Handler != nil {
		all = append(all, pool.Handler)
	}
	for _, h := range pool.Kinds {
		all = append(all, h)
	}
	p.codesOf(path, pool.Retries.On, all...)
}

// codes checks each code by itself, and reports whether there are any and all are right.
func (p *problems) codes(path string, on []int) bool {
	before := len(p.all)
	for i, code := range on {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case code < 1 || code > limits.Code:
			p.add(at, "%d is out of range 1–%d; write exit codes of commands, 1–255, or statuses of HTTP, 100–599", code, limits.Code)
		case slices.Contains(on[:i], code):
			p.add(at, "%d is given twice; remove one", code)
		}
	}
	return len(on) > 0 && len(p.all) == before
}

// codesOf checks that a failure of one of the handlers may have one of the codes.
func (p *problems) codesOf(path string, on []int, handlers ...Handler) {
	least, most := limits.Code, 0
	for _, h := range handlers {
		coded, is := unwrap.As[Coded](h)
		if !is {
			continue
		}
		low, high, _ := coded.Codes()
		if slices.ContainsFunc(on, func(code int) bool { return low <= code && code <= high }) {
			return
		}
		least, most = min(least, low), max(most, high)
	}
	switch {
	case most > 0:
		p.add(path, "no failure has one of these codes, as they are %d–%d here, and so none would be retried; write others, or limit: 0", least, most)
	case len(handlers) > 0 && !slices.ContainsFunc(handlers, func(h Handler) bool { return !IsWorker(h) }):
		p.add(path, `has no effect, as failures of workers have no codes; remove it: a worker ends what is not to be retried with "retry": false`)
	default:
		p.add(path, "has no effect, as only failures of commands and of requests over HTTP have codes; remove it; a function in Go returns jobs.Permanent(err) for what is not to be retried")
	}
}
