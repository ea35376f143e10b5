package config

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// checkSet validates the set with package jobs, and finds the position of each problem.
func (r *reader) checkSet() {
	set := &r.c.Set
	if len(set.Jobs) == 0 && len(set.Pools) == 0 {
		r.warnings.add(r.main.at(r.main.root), "", "there are no jobs and no pools", "")
	}
	pools := *set
	pools.Jobs = nil // their problems are in r.wrong
	wrong := flatten(errors.Join(append(r.wrong, pools.Validate())...))
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
	r.checkJobLocks()
	if r.report.errors() == nil {
		r.adviseUnheard()
	}
	if len(set.Calendars) > 0 && r.report.errors() == nil {
		r.adviseNeverDue(time.Now())
	}
}

// inFile translates hints of package jobs from Go fields to keys of the file.
var inFile = map[string]string{
	"give it a Handler, or the Kind of one that its pool has": "give it one, as in command, shell, http or func",
	"give it a Handler": "give it a webhook or a command",
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

// locate finds the position of a path like "lock.ttl" or "jobs.backup.retries.limit", for problems found after reading.
// A path that is not written has the position of its nearest parent.
func (r *reader) locate(path string) position {
	for _, ns := range []*names{&r.jobs, &r.pools, &r.calendars} {
		p, rest, ok := ns.owner(path)
		if !ok {
			continue
		}
		n, found := descend(p.key, p.node, rest)
		if !found && ns == &r.jobs {
			if from, found := descend(nil, r.main.root, "defaults."+rest); found {
				return r.main.at(from)
			}
		}
		return p.file.at(n)
	}
	n, _ := descend(r.main.root, r.main.root, path)
	return r.main.at(n)
}

// owner splits "jobs.a.b.timeout" into the job "a.b" and the rest; names may contain dots.
func (ns *names) owner(path string) (p place, rest string, found bool) {
	path, of := strings.CutPrefix(path, ns.kind+"s.")
	if !of {
		return place{}, "", false
	}
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], ".[") {
		if p, ok := ns.first[strings.ToLower(path[:end])]; ok {
			return p, strings.TrimPrefix(path[end:], "."), true
		}
	}
	return place{}, "", false
}

// descend follows path from n as far as it goes and returns the last value on the way (or key,
// if there was none), and whether that was the whole path.
func descend(key, n *yaml.Node, path string) (*yaml.Node, bool) {
	last := key
	for {
		n = deref(n)
		if path == "" {
			return n, true
		}
		next, k, rest := step(n, path)
		if next == nil {
			return last, false
		}
		n, last, path = next, k, rest
	}
}

// step descends one key or index. It returns the value, the node to show in messages, and the rest of the path.
func step(n *yaml.Node, path string) (value, shown *yaml.Node, rest string) {
	switch n.Kind {
	case yaml.MappingNode:
		n = merged(n, func(*yaml.Node) {})
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			after, ok := strings.CutPrefix(path, key.Value)
			longest := key.Value != "" && (shown == nil || len(key.Value) > len(shown.Value))
			if ok && longest && (after == "" || after[0] == '.' || after[0] == '[') {
				value, shown, rest = n.Content[i+1], key, strings.TrimPrefix(after, ".")
			}
		}
	case yaml.SequenceNode:
		inside, after, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(inside); ok && path[0] == '[' && err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i], strings.TrimPrefix(after, ".")
		}
	}
	return value, shown, rest
}
