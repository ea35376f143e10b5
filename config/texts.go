package config

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"
)

// texts are the jobs of a file as they are written.
type texts struct {
	from, to int   // the bytes of all
	starts   []int // the byte at which each begins, up to the next one or to the end
	lines    []int // the line that is, from 1
}

// cutJobs finds the jobs of a file, each from the line of its name; false if the file does not have them in lines below the key.
//
// The file is cut before lines that begin with a name and are as far indented as the first job. Such a line is the key of a job: what is of the job
// before is further indented, but for the rest of a text in quotes, or of a list or map in brackets. Before such a line these are not closed, and the text that ends there
// is an error by itself.
func cutJobs(data []byte) (t texts, found bool) {
	for _, ends := range []string{"\r", "\u0085", "\u2028", "\u2029"} { // other ends of a line
		if bytes.Contains(data, []byte(ends)) {
			return texts{}, false
		}
	}
	t.from, t.to = jobsBlock(data)
	t.starts, t.lines = []int{t.from}, []int{1 + bytes.Count(data[:t.from], []byte("\n"))}
	indent, at, n := 0, t.from, t.lines[0]
	for line := range bytes.Lines(data[t.from:t.to]) {
		text := bytes.TrimLeft(line, " ")
		blanks := len(line) - len(text)
		switch c := text[:min(len(text), 1)]; {
		case len(c) == 0 || c[0] == '\n' || c[0] == '#':
		case indent == 0:
			indent = max(blanks, 1)
		case blanks == indent && (c[0] >= 'a' && c[0] <= 'z' || c[0] >= 'A' && c[0] <= 'Z' || c[0] >= '0' && c[0] <= '9' || c[0] == '_'):
			t.starts, t.lines = append(t.starts, at), append(t.lines, n)
		}
		at, n = at+len(line), n+1
	}
	return t, t.to > t.from
}

// of is the text of the job at index i.
func (t texts) of(data []byte, i int) []byte { return data[t.starts[i]:t.end(i)] }

func (t texts) end(i int) int {
	if i+1 < len(t.starts) {
		return t.starts[i+1]
	}
	return t.to
}

// parts are where the jobs may be divided, at least so many bytes apart: the bytes at which parts begin, and the end.
func (t texts) parts(least int) (cuts []int) {
	cuts = []int{t.from}
	for _, start := range t.starts {
		if start-cuts[len(cuts)-1] >= least {
			cuts = append(cuts, start)
		}
	}
	return append(cuts, t.to)
}

// around is what is beside the jobs, with as many lines as there are.
func (t texts) around(data []byte) []byte {
	return slices.Concat(data[:t.from], emptied(data[t.from:t.to]), data[t.to:])
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

// entries divides the keys and values of a map among the texts that begin in these lines. Nil: a text has none, or does not begin with its key, as it is within
// another one. The first one may have comments before its key.
func entries(of []*yaml.Node, lines []int) [][]*yaml.Node {
	parts := make([][]*yaml.Node, len(lines))
	for i, line := range lines {
		n := 0
		for n < len(of) && (i+1 == len(lines) || of[n].Line < lines[i+1]) {
			n += 2
		}
		if n == 0 || i > 0 && of[0].Line != line {
			return nil
		}
		parts[i], of = of[:n], of[n:]
	}
	return parts
}
