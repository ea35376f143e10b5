package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
)

// reader walks the trees of one configuration into c. It goes on after each problem, so that one run finds them all.
type reader struct {
	options  Options
	env      func(string) (string, bool)
	report   report
	warnings report

	main *source
	file *source  // being read
	path []string // of the value being read

	c        *Config
	defaults jobDraft
	pools    names
	jobs     names

	calendars names

	standard []string        // of Options.Environ, for every command
	programs map[string]bool // whether files are executable
	wrong    []error         // of the jobs that were read, by Set.ValidateChanged
	doubtful map[string]bool // paths of what may be missing since a key is misspelt, or was refused
	volatile map[string]bool // names of the jobs that each load has to read

	openings []opening // what Options.Opened is to be told, of a forked reader until it is joined
	reuse    *reuse    // of an incremental load; nil: everything is read
}

// opening is what Options.Opened is to be told.
type opening struct {
	path    string
	content []byte
}

// schema maps the keys of a map to readers of their values.
type schema[T any] map[string]read[T]

// read reads one value into its place in a T.
type read[T any] func(r *reader, n *yaml.Node, into *T)

// object reads a map whose keys are those of s, and reports whether it has no others. Keys that start with "x-" are ignored.
func object[T any](r *reader, n *yaml.Node, s schema[T], into *T) (known bool) {
	known = true
	r.each(n, func(key, value *yaml.Node) {
		switch field, is := s[key.Value]; {
		case is:
			field(r, value, into)
		case !strings.HasPrefix(key.Value, "x-"):
			r.unknown(key, slices.Sorted(maps.Keys(s)))
			known = false
		}
	})
	return known
}

// section reads a nested map.
func section[T, S any](s schema[S], place func(*T) *S) read[T] {
	return func(r *reader, n *yaml.Node, into *T) { object(r, n, s, place(into)) }
}

func (r *reader) unknown(key *yaml.Node, known []string) {
	hint := "keys here are " + strings.Join(known, ", ")
	if len(known) == 0 {
		hint = "it has no keys: write {}"
	}
	if k := nearest.Key(key.Value, known); k != "" {
		hint = fmt.Sprintf("did you mean %q?", k)
	}
	if key.Value == "worker" && len(r.path) == 3 && r.path[0] == "jobs" {
		hint = "workers over HTTP run a job by its pool: write worker: {} in a pool, and the name of that pool in pool"
	}
	r.fail(key, "unknown key", hint)
	if len(r.path) > 2 && r.path[0] == "jobs" {
		r.doubtful["jobs."+r.path[1]] = true
	}
}

// isMap reports whether a value is a map, or empty. If not, it says what to write.
func (r *reader) isMap(n *yaml.Node, hint string) bool {
	n = deref(n)
	if n.Kind == yaml.MappingNode || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return true
	}
	r.fail(n, "must be a map", hint)
	return false
}

// each calls f for each entry of a map, with the entry's key at the end of r.path. "<<" merges as in YAML: own entries
// take precedence. An empty value is an empty map.
func (r *reader) each(n *yaml.Node, f func(key, value *yaml.Node)) {
	n = deref(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, "must be a map", `write "key: value" lines below it`)
		return
	}
	r.path = append(r.path, "")
	last := len(r.path) - 1
	if r.file.merges {
		r.path[last] = "<<"
		n = merged(n, func(from *yaml.Node) { r.fail(from, "<< takes a map, or a list of maps", "") })
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode && key.Value != "" {
			r.path[last] = key.Value
			f(key, n.Content[i+1])
		}
	}
	r.path = r.path[:last]
}

func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag == "!!merge" }

// merged returns a map with its "<<" expanded. It calls wrong for values of "<<" that are not maps.
func merged(n *yaml.Node, wrong func(from *yaml.Node)) *yaml.Node {
	if !slices.ContainsFunc(n.Content, isMerge) {
		return n
	}
	whole := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
	taken := map[string]bool{}
	var sources []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch from := deref(value); {
		case !isMerge(key):
			taken[key.Value] = true
			whole.Content = append(whole.Content, key, value)
		case from.Kind == yaml.SequenceNode:
			sources = append(sources, from.Content...)
		default:
			sources = append(sources, value)
		}
	}
	for _, from := range sources {
		if from = deref(from); from.Kind != yaml.MappingNode {
			wrong(from)
			continue
		}
		from = merged(from, wrong)
		for i := 0; i < len(from.Content); i += 2 {
			if key := from.Content[i]; !taken[key.Value] {
				taken[key.Value] = true
				whole.Content = append(whole.Content, key, from.Content[i+1])
			}
		}
	}
	return whole
}

// find returns the value of a key of a map, "<<" included, or nil.
func (r *reader) find(n *yaml.Node, name string) (found *yaml.Node) {
	r.each(n, func(key, value *yaml.Node) {
		if key.Value == name {
			found = value
		}
	})
	return found
}

// items calls f for each item of a list, with "[i]" at the end of r.path. An empty value is an
// empty list.
func (r *reader) items(n *yaml.Node, f func(item *yaml.Node)) {
	n = deref(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "must be a list", `write ["a", "b"], or lines that start with "- "`)
		return
	}
	for i, item := range n.Content {
		r.within("["+strconv.Itoa(i)+"]", func() { f(item) })
	}
}

// within calls f with one more element at the end of r.path.
func (r *reader) within(element string, f func()) {
	r.path = append(r.path, element)
	f()
	r.path = r.path[:len(r.path)-1]
}

// fail reports a problem of the value n.
func (r *reader) fail(n *yaml.Node, problem, hint string) {
	r.report.add(r.file.at(n), pathText(r.path), problem, hint)
}

// warn reports a probable mistake.
func (r *reader) warn(n *yaml.Node, problem, hint string) {
	r.warnings.add(r.file.at(n), pathText(r.path), problem, hint)
}

// pathText formats a path as "jobs.backup.command[0]". Elements that are no keys of the schema are quoted and cut: they
// go to terminals.
func pathText(path []string) string {
	var b strings.Builder
	for i, element := range path {
		if i > 0 && !strings.HasPrefix(element, "[") {
			b.WriteByte('.')
		}
		switch {
		case len(element) > 64:
			b.WriteString(quoted(element))
		case strings.ContainsFunc(element, func(r rune) bool { return !strconv.IsPrint(r) }):
			b.WriteString(strconv.Quote(element))
		default:
			b.WriteString(element)
		}
	}
	return b.String()
}

// quoted formats a text of the file for a message.
func quoted(text string) string { return clip.Quoted(text, 60) }

// empty: no value, "", {}, [], or a map of such.
func empty(n *yaml.Node) bool {
	n = deref(n)
	if n.Kind == yaml.ScalarNode {
		return n.Value == "" || n.ShortTag() == "!!null"
	}
	if n.Kind == yaml.SequenceNode {
		return len(n.Content) == 0
	}
	for i := 1; i < len(n.Content); i += 2 {
		if !empty(n.Content[i]) {
			return false
		}
	}
	return true
}

// names are the jobs, the pools or the calendars that were read, to find duplicates.
type names struct {
	kind  string // "job", "pool", "calendar"
	first map[string]place
	order []string // as they were read
}

// place is the position of a job or pool.
type place struct {
	name string
	file *source
	key  *yaml.Node
	node *yaml.Node
}

// reserve notes a name; false if it is invalid or taken.
func (r *reader) reserve(ns *names, key, value *yaml.Node) bool {
	if !naming.Valid(key.Value) {
		r.fail(key, fmt.Sprintf("%s is not a name for a %s", quoted(key.Value), ns.kind), naming.Hint)
		return false
	}
	lower := strings.ToLower(key.Value)
	if p, taken := ns.first[lower]; taken {
		// Within one map, the same spelling was reported by parse.
		if p.name != key.Value || p.file != r.file {
			r.fail(key, fmt.Sprintf("a second %s named %q", ns.kind, key.Value),
				fmt.Sprintf("the first, %q, is at %s:%d:%d; names are unique without regard to case", p.name, p.file.name, p.key.Line, p.key.Column))
		}
		return false
	}
	ns.first[lower] = place{key.Value, r.file, key, value}
	ns.order = append(ns.order, key.Value)
	return true
}
