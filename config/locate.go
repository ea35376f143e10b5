package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// locate finds the position of a path like "lock.ttl" or "jobs.backup.retries.limit", for problems found after reading.
// A path that is not written has the position of its nearest parent.
func (r *reader) locate(path string) position {
	kind, rest, _ := strings.Cut(path, ".")
	switch kind {
	case "jobs":
		if p, rest, ok := r.jobs.owner(rest); ok {
			return r.below(p, rest)
		}
	case "pools":
		if p, rest, ok := r.pools.owner(rest); ok {
			return r.below(p, rest)
		}
	}
	n, _ := descend(r.main.root, r.main.root, path)
	return r.main.at(n)
}

// below finds a path within a job or pool, or for jobs within the defaults.
func (r *reader) below(p place, rest string) position {
	n, found := descend(p.key, p.node, rest)
	if !found && p.kind == "job" {
		if from, found := descend(nil, r.main.root, "defaults."+rest); found {
			return r.main.at(from)
		}
	}
	return p.file.at(n)
}

// owner splits "a.b.timeout" into the job or pool "a.b" and the rest; names may contain dots.
func (ns *names) owner(path string) (p place, rest string, found bool) {
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		if p, ok := ns.first[strings.ToLower(path[:end])]; ok {
			return p, strings.TrimPrefix(path[end:], "."), true
		}
		if bracket := strings.IndexByte(path[:end], '['); bracket > 0 {
			end = bracket
			if p, ok := ns.first[strings.ToLower(path[:end])]; ok {
				return p, path[end:], true
			}
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
		longest := -1
		for i := 0; i < len(n.Content); i += 2 {
			key, value2 := n.Content[i], n.Content[i+1]
			if isMerge(key) {
				for _, from := range mergeSources(value2) {
					if v, s, after := step(deref(from), path); v != nil && longest < 0 {
						value, shown, rest = v, s, after
					}
				}
				continue
			}
			after, ok := strings.CutPrefix(path, key.Value)
			if ok && key.Value != "" && len(key.Value) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
				value, shown, rest, longest = value2, key, strings.TrimPrefix(after, "."), len(key.Value)
			}
		}
	case yaml.SequenceNode:
		inside, after, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if !ok || path[0] != '[' {
			return nil, nil, ""
		}
		for i, item := range n.Content {
			if inside == strconv.Itoa(i) {
				return item, item, strings.TrimPrefix(after, ".")
			}
		}
	}
	return value, shown, rest
}
