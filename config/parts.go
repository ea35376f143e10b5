package config

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
)

// leastText is how many bytes of jobs are parsed by themselves at least.
const leastText = 512 << 10

// inParts parses a file whose jobs take much text: these in parts of least bytes or more, so many at once. It returns nil where there is one part only, and where
// anything is wrong: then the file is to be parsed whole, which says what.
//
// The file is cut before lines that begin with a name and are as far indented as the first job. Such a line is the key of a job: what is of the job
// before is further indented, but for the rest of a text in quotes, or of a list or map in brackets. Before such a line these are not closed, and the part that ends there
// is an error. So is an alias whose anchor is in another part. Each part has as many empty lines before it as there are lines, so that its nodes
// have their positions in the file.
func inParts(data []byte, least, atOnce int) *yaml.Node {
	if atOnce < 2 || len(data) < least {
		return nil
	}
	for _, ends := range []string{"\r", "\u0085", "\u2028", "\u2029"} { // other ends of a line
		if bytes.Contains(data, []byte(ends)) {
			return nil
		}
	}
	from, to := jobsBlock(data)
	cuts := slices.Concat([]int{from}, jobCuts(data[:to], from, least), []int{to})
	if len(cuts) < 3 {
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
	parse(len(cuts)-1, data[:from], emptied(data[from:to]), data[to:])
	if all.Wait() != nil {
		return nil
	}
	return joined(roots[len(cuts)-1], roots[:len(cuts)-1], bytes.Count(data[:from], []byte("\n")))
}

// emptied has the ends of lines of a text, and nothing else.
func emptied(text []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n"))) }

// jobsBlock is where the lines below "jobs:" begin and end that are indented, or empty, or a comment; twice 0 if there are none.
func jobsBlock(data []byte) (from, to int) {
	at := 0
	for line := range bytes.Lines(data) {
		at += len(line)
		rest, is := bytes.CutPrefix(line, []byte("jobs:"))
		switch rest = bytes.TrimLeft(rest, " "); {
		case from > 0 && line[0] != ' ' && line[0] != '\n' && line[0] != '#':
			return from, at - len(line)
		case from == 0 && is && (len(rest) == 0 || rest[0] == '\n' || rest[0] == '#'):
			from, to = at, len(data)
		}
	}
	return from, to
}

// jobCuts are where data, which ends with the jobs that begin at from, may be cut, at least so many bytes apart.
func jobCuts(data []byte, from, least int) (cuts []int) {
	indent, at := 0, from
	for line := range bytes.Lines(data[from:]) {
		text := bytes.TrimLeft(line, " ")
		blanks := len(line) - len(text)
		switch c := text[:min(len(text), 1)]; {
		case len(c) == 0 || c[0] == '\n' || c[0] == '#':
		case indent == 0:
			indent = max(blanks, 1)
		case blanks == indent && at-from >= least && (c[0] >= 'a' && c[0] <= 'z' || c[0] >= 'A' && c[0] <= 'Z' || c[0] >= '0' && c[0] <= '9' || c[0] == '_'):
			cuts, from = append(cuts, at), at
		}
		at += len(line)
	}
	return cuts
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

// joined is the root of a file in which the key "jobs" of a line has no value, with these jobs as its value; nil: they are no maps, or that is no such key.
func joined(root *yaml.Node, parts []*yaml.Node, line int) *yaml.Node {
	jobs := parts[0]
	for _, part := range parts {
		if part.Kind != yaml.MappingNode || part.Style&yaml.FlowStyle != 0 || part.Content[0].Column != jobs.Content[0].Column {
			return nil
		}
		if part != jobs {
			jobs.Content = append(jobs.Content, part.Content...)
		}
	}
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if key, value := root.Content[i], root.Content[i+1]; key.Line == line && key.Value == "jobs" && value.ShortTag() == "!!null" {
			root.Content[i+1] = jobs
			return root
		}
	}
	return nil
}
