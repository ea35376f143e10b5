package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth  = 64      // of nesting, aliases followed
	maxGrowth = 500_000 // nodes that aliases may add to a file, beyond ten times its own
)

// sound checks a YAML tree before it is read: keys are unique names, texts have no NUL, anchors do not contain
// themselves, aliases do not multiply without bound. Each node is traversed once. It returns false if the tree must not
// be walked.
func sound(s *source, r *report) bool {
	c := checker{file: s, report: r, anchored: map[*yaml.Node]extent{}}
	e := c.check(s.root, 0)
	s.grown = min(s.grown+c.grown, saturated)
	if e.size > 10*c.nodes+maxGrowth {
		c.endless(s.root, "aliases make the file too large", fmt.Sprintf("written out it would have %s values", aLot(e.size)))
	}
	return !c.unwalkable
}

type checker struct {
	file       *source
	report     *report
	anchored   map[*yaml.Node]extent
	nodes      int
	grown      int // by aliases, each with what is in it
	unwalkable bool
}

// extent is the size of a node with aliases expanded; the zero extent marks a node that is being traversed.
type extent struct{ size, height int }

// saturated bounds sizes, so that they can be added without overflow.
const saturated = 1 << 40

func (c *checker) fail(n *yaml.Node, problem, hint string) {
	c.report.add(c.file.at(n), "", problem, hint)
}

func (c *checker) endless(n *yaml.Node, problem, hint string) {
	if !c.unwalkable {
		c.fail(n, problem, hint)
	}
	c.unwalkable = true
}

func (c *checker) check(n *yaml.Node, depth int) extent {
	if n.Kind == yaml.AliasNode {
		e, known := c.anchored[n.Alias]
		switch {
		case !known: // a key's anchor
			e = extent{1, 1}
		case e == extent{}:
			c.endless(n, fmt.Sprintf("the anchor &%s contains itself", n.Value), "")
		case depth+e.height > maxDepth:
			c.endless(n, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		}
		c.grown = min(c.grown+e.size, saturated)
		return e
	}
	if depth > maxDepth {
		c.endless(n, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		return extent{1, 1}
	}
	if n.Anchor != "" {
		c.anchored[n] = extent{}
		c.file.anchors = append(c.file.anchors, n.Line)
	}
	c.nodes++
	whole := extent{1, 1}
	part := func(child *yaml.Node) {
		e := c.check(child, depth+1)
		whole.size = min(whole.size+e.size, saturated)
		whole.height = max(whole.height, e.height+1)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		c.scalar(n)
	case yaml.SequenceNode:
		c.tag(n, "!!seq")
		for _, item := range n.Content {
			part(item)
		}
	case yaml.MappingNode:
		c.tag(n, "!!map")
		c.keys(n)
		for i := 1; i < len(n.Content); i += 2 {
			part(n.Content[i])
		}
	}
	if n.Anchor != "" {
		c.anchored[n] = whole
	}
	return whole
}

func (c *checker) scalar(n *yaml.Node) {
	if strings.ContainsRune(n.Value, 0) {
		c.fail(n, "the text contains a NUL character", "")
	}
	c.tag(n, "!!str")
}

// tag refuses explicit tags but for the one given.
func (c *checker) tag(n *yaml.Node, known string) {
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != known {
		c.fail(n, fmt.Sprintf("the tag %s is unknown", n.Tag), "remove it")
	}
}

func (c *checker) keys(n *yaml.Node) {
	var first map[string]*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		c.nodes++
		if key.Kind != yaml.ScalarNode {
			c.fail(key, "a key must be a name", "")
			continue
		}
		c.scalar(key)
		if key.Anchor != "" {
			c.file.anchors = append(c.file.anchors, key.Line)
		}
		c.file.merges = c.file.merges || isMerge(key)
		if key.Value == "" {
			c.fail(key, "a key is empty", "")
			continue
		}
		var earlier *yaml.Node
		if len(n.Content) <= 16 {
			for j := 0; j < i && earlier == nil; j += 2 {
				if n.Content[j].Value == key.Value && n.Content[j].Kind == yaml.ScalarNode {
					earlier = n.Content[j]
				}
			}
		} else {
			if first == nil {
				first = make(map[string]*yaml.Node, len(n.Content)/2)
			}
			if earlier = first[key.Value]; earlier == nil {
				first[key.Value] = key
			}
		}
		if earlier != nil {
			c.fail(key, fmt.Sprintf("the key %s is given twice", quoted(key.Value)), fmt.Sprintf("first at line %d", earlier.Line))
		}
	}
}

// anchored reports whether there is an anchor in the lines from one to before another.
func (s *source) anchored(from, to int) bool {
	return slices.ContainsFunc(s.anchors, func(line int) bool { return line >= from && line < to })
}

// deref follows aliases. It is for trees that are sound.
func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func aLot(n int) string {
	if n >= saturated {
		return "countless"
	}
	return fmt.Sprint(n)
}
