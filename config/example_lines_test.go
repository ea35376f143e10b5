package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// entry is the line of one key in config.example.yaml.
type entry struct {
	line      int    // its place among its siblings
	value     string // as it is written there
	node      *yaml.Node
	why       string // the comment behind it
	commented bool   // the key stands in a comment: its default is nothing
	standard  bool   // it is the default all the same
	shared    bool   // it was found among the defaults for jobs
}

var (
	commented = regexp.MustCompile(`^( *)# ((?:  )?[a-z_]+:( .*)?)$`)
	comment   = regexp.MustCompile(`\s# (.*)$`)
)

// exampleEntries reads the example with commented keys enabled. The keys of the result are paths: "lock.redis.addrs".
func exampleEntries(t *testing.T) map[string]entry {
	t.Helper()
	data, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	off := map[int]bool{}
	for i, line := range lines {
		if m := commented.FindStringSubmatch(line); m != nil {
			lines[i], off[i+1] = m[1]+m[2], true
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	told := map[int]bool{} // lines whose comment belongs to an earlier key
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			e := entry{line: key.Line*1000 + key.Column, node: value, commented: off[key.Line]}
			if m := comment.FindStringSubmatch(lines[key.Line-1]); m != nil && !told[key.Line] {
				told[key.Line] = true
				e.why = strings.TrimSuffix(m[1], ". Or:")
				if rest, is := strings.CutPrefix(e.why, "the default"); is {
					e.standard, e.why = true, strings.TrimPrefix(rest, ", ")
				}
			}
			if value.Kind == yaml.ScalarNode || value.Style&yaml.FlowStyle != 0 {
				e.value = flow(value)
			}
			all[strings.TrimPrefix(path+"."+key.Value, ".")] = e
			walk(path+"."+key.Value, value)
		}
	}
	walk("", doc.Content[0])
	return all
}

// flow writes a value in one line.
func flow(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		var items []string
		for _, item := range n.Content {
			items = append(items, flow(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case yaml.MappingNode:
		var items []string
		for i := 0; i < len(n.Content); i += 2 {
			items = append(items, n.Content[i].Value+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return `"` + n.Value + `"`
	}
	return n.Value
}

// places are where the example may show a key, in the order in which they count.
func places(path []string) []string {
	own := strings.Join(path, ".")
	found := []string{own}
	if len(path) < 2 || path[1] != "*" {
		return found
	}
	rest := path[2:]
	switch path[0] {
	case "calendars":
		return []string{strings.Join(append([]string{"calendars.holidays"}, rest...), ".")}
	case "jobs":
		found = nil
		for _, from := range []string{"defaults", "jobs.tick", "jobs.write-letters", "pools.default"} {
			found = append(found, strings.Join(append([]string{from}, rest...), "."))
		}
	case "pools":
		if i := slices.Index(rest, "*"); i >= 0 { // the handler of a kind is like that of the pool
			rest = rest[i+1:]
		}
		found = nil
		for _, from := range []string{"pools.default", "defaults"} {
			found = append(found, strings.Join(append([]string{from}, rest...), "."))
		}
	}
	return found
}
