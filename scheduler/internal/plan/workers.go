package plan

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// AdmitByWorker is Admit for a worker that knows these kinds. An attempt may run until it has timed out: the worker ends it
// sooner when its session may have expired, which the row does not say.
func (p *Plan) AdmitByWorker(g Governing, kinds []string, now time.Time, c ledger.Candidate) (until time.Time, ok bool) {
	e, ok := p.ByWorker(c.Task)
	if !ok {
		return time.Time{}, false
	}
	until = now.Add(e.Timeout)
	if c.Task.Job == "" {
		return until, g.lets(c.Task.Kind) && slices.Contains(kinds, c.Task.Kind)
	}
	j := p.Jobs[c.Task.Job]
	return until, j.Hash == c.JobHash && g.runs(j) && slices.Contains(kinds, j.Kind)
}

// NotByWorker are the jobs of a pool, sorted, whose tasks a worker that knows these kinds does not run.
func (p *Plan) NotByWorker(pool string, kinds []string) (names []string) {
	for _, name := range p.names {
		j := p.Jobs[name]
		if j.Pool == pool && (j.Executes == nil || !jobs.IsWorker(j.Executes) || !slices.Contains(kinds, j.Kind)) {
			names = append(names, name)
		}
	}
	return names
}
