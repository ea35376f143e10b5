package config

import (
	"cmp"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// checkSet validates the set with package jobs, and finds the position of each problem.
func (r *reader) checkSet() {
	set := &r.c.Set
	if len(set.Jobs) == 0 && len(set.Pools) == 0 {
		r.warnings.add(r.main.at(r.main.root), "", "there are no jobs and no pools", "")
	}
	wrong := flatten(validate(*set))
	for key, problem := range naming.LabelProblems(r.c.Replica.Labels) {
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

// inFile translates hints of package jobs from Go fields to keys of the file.
var inFile = map[string]string{
	"give it a Handler, or the Kind of one that its pool has": "give it one, as in command, shell, http or func",
	"give it a Handler": "give it a webhook or a command",
}

// validate is Set.Validate over parts in parallel: 100,000 jobs take a while. Duplicate names were found while reading.
func validate(set jobs.Set) error {
	const least = 1000 // jobs per part
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
