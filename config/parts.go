package config

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
)

// leastText is how many bytes of jobs are parsed by themselves at least.
const leastText = 512 << 10

// inParts parses a file whose jobs take much text: these in parts of least bytes or more, so many at once. It returns nil where there is one part only, and where
// anything is wrong: then the file is to be parsed whole, which says what. An alias whose anchor is in another part is an error, too.
//
// Each part has as many empty lines before it as there are lines, so that its nodes have their positions in the file.
func inParts(data []byte, least, atOnce int) *yaml.Node {
	if atOnce < 2 || len(data) < least {
		return nil
	}
	t, found := cutJobs(data)
	cuts := t.parts(least)
	if !found || len(cuts) < 3 {
		return nil
	}
	roots := make([]*yaml.Node, len(cuts))
	var all errgroup.Group
	all.SetLimit(atOnce)
	parse := func(n int, text ...[]byte) {
		all.Go(func() (err error) {
			roots[n], err = document(bytes.Join(text, nil))
			return err
		})
	}
	for n, end := range cuts[1:] {
		parse(n, emptied(data[:cuts[n]]), data[cuts[n]:end])
	}
	parse(len(cuts)-1, t.around(data))
	if all.Wait() != nil {
		return nil
	}
	root, parts := roots[len(cuts)-1], roots[:len(cuts)-1]
	place := jobsValue(root, t.lines[0]-1)
	if place == nil || (*place).ShortTag() != "!!null" || !joined(parts) {
		return nil
	}
	*place = parts[0]
	return root
}

var errNotOne = errors.New("not one document")

// document parses a text with one document.
func document(text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := decode(dec, &doc); err != nil {
		return nil, err
	}
	if err := decode(dec, &second); !errors.Is(err, io.EOF) || len(doc.Content) != 1 {
		return nil, errNotOne
	}
	return doc.Content[0], nil
}

// joined adds the jobs of all parts to those of the first one; false: they are no maps of lines.
func joined(parts []*yaml.Node) bool {
	jobs := parts[0]
	for _, part := range parts {
		if part.Kind != yaml.MappingNode || part.Style&yaml.FlowStyle != 0 || part.Content[0].Column != jobs.Content[0].Column {
			return false
		}
		if part != jobs {
			jobs.Content = append(jobs.Content, part.Content...)
		}
	}
	return true
}

// jobsValue is the place of the value of the key "jobs" of a line; nil: that is no such key.
func jobsValue(root *yaml.Node, line int) **yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Line == line && key.Value == "jobs" {
			return &root.Content[i+1]
		}
	}
	return nil
}

// jobsMap is the map below the key "jobs" of a line, nil if that is no map of lines.
func jobsMap(root *yaml.Node, line int) *yaml.Node {
	if place := jobsValue(root, line); place != nil && (*place).Kind == yaml.MappingNode && (*place).Style&yaml.FlowStyle == 0 {
		return *place
	}
	return nil
}
