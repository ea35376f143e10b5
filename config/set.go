package config

import (
	"cmp"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/labels"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// checkSet lets package jobs judge what was read, and finds where each problem stands.
func (r *reader) checkSet() {
	set := &r.c.Set
	if len(set.Jobs) == 0 && len(set.Pools) == 0 {
		r.warnings.add(r.main.at(r.main.root), "", "there are no jobs and no pools", "")
	}
	wrong := flatten(judge(*set))
	for key, problem := range labels.Problems(r.c.Replica.Labels) {
		wrong = append(wrong, &jobs.FieldError{Path: "replica.labels" + key, Problem: problem})
	}
	for _, err := range wrong {
		field := (*jobs.FieldError)(nil)
		if !errors.As(err, &field) {
			r.refuse("", err.Error(), "")
			continue
		}
		if at := r.locate(field.Path); !r.doubtful[field.Path] && !r.report.has(at) {
			problem, hint, _ := strings.Cut(field.Problem, "; ")
			r.report.add(at, field.Path, problem, cmp.Or(inFile[hint], hint))
		}
	}
}

// inFile says in keys of the file what package jobs says in fields of Go.
var inFile = map[string]string{
	"give it a Handler, or the Kind of one that its pool has": "give it one, as in command, shell, http or func",
	"give it a Handler": "give it a webhook or a command",
}

// judge is Set.Validate, with the jobs in parts side by side: 100,000 of them take a while. That no
// two names are alike was seen when they were read.
func judge(set jobs.Set) error {
	const least = 1000 // jobs worth a part
	names := slices.Sorted(maps.Keys(set.Jobs))
	parts := max(1, min(runtime.GOMAXPROCS(0), len(names)/least))
	found := make([]error, parts)
	var all sync.WaitGroup
	for i := range parts {
		part := jobs.Set{Pools: set.Pools, Jobs: make(map[string]jobs.Job, len(names)/parts+1)}
		for _, name := range names[len(names)*i/parts : len(names)*(i+1)/parts] {
			part.Jobs[name] = set.Jobs[name]
		}
		all.Go(func() { found[i] = part.Validate() })
	}
	all.Wait()
	return errors.Join(found...)
}

// flatten returns the parts of a joined error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, part := range joined.Unwrap() {
			all = append(all, flatten(part)...)
		}
		return all
	}
	return []error{err}
}
