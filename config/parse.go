package config

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds all files of one configuration together: 100,000 jobs need about 15 MB.
const maxSize = 64 << 20

// source is one file of the configuration.
type source struct {
	name  string // as given, or as included; used in errors
	dir   string // where its relative paths start
	order int    // 0 = the main file
	size  int    // in bytes
	root  *yaml.Node

	merges  bool  // a map of it has the key "<<"
	anchors []int // lines with one
	grown   int   // nodes that aliases add

	full   string       // its full path; "": that is not known
	data   []byte       // of Options.Reloadable
	texts  *texts       // of the jobs in data; nil: it has not been cut
	reused []reusedText // one for each text; nil: all is read
	hash   hash.Hash    // of digest
}

func (s *source) at(n *yaml.Node) position { return position{s, n.Line, n.Column} }

// emptyFile is the problem of a file without a document, or with a null one.
const emptyFile = "the file is empty"

// parse reads one YAML document into s.root and reports errors of the YAML itself. If it returns false, s.root must not
// be walked.
func (r *reader) parse(s *source, data []byte) bool {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if r.options.Reloadable {
		s.data = data
		s.full, _ = filepath.Abs(s.name)
	}
	if r.reuse != nil {
		r.reuse.whole = r.reuse.whole || !r.parseIncremental(s, data)
		return !r.reuse.whole
	}
	return r.parseWhole(s, data)
}

func (r *reader) parseWhole(s *source, data []byte) bool {
	if !legible(s, data, &r.report) {
		return false
	}
	if s.root = inParts(data, max(leastText, len(data)/(2*r.atOnce())), r.atOnce()); s.root != nil {
		return sound(s, &r.report)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := decode(dec, &doc)
	if errors.Is(err, io.EOF) || err == nil && blank(&doc) {
		r.report.add(position{file: s}, "", emptyFile, "")
		return false
	}
	if err == nil {
		if err = decode(dec, &second); err == nil {
			r.report.add(s.at(&second), "", "a second YAML document", "one file holds one document; use include for more files")
			return false
		}
	}
	if !errors.Is(err, io.EOF) {
		p, problem, hint := syntaxError(s, data, err)
		r.report.add(p, "", problem, hint)
		return false
	}
	s.root = doc.Content[0]
	return sound(s, &r.report)
}

func blank(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null"
}

// decode turns a panic of the YAML library into an error.
func decode(dec *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("yaml: this cannot be read as YAML")
		}
	}()
	return dec.Decode(into)
}

// legible reports invalid UTF-8 and control characters.
func legible(s *source, data []byte, r *report) bool {
	for i, c := range string(data) {
		switch {
		case c == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")):
			r.add(positionOf(s, data, i), "", "not UTF-8", "save the file as UTF-8")
			return false
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c >= 0x7f && c < 0xa0 && c != 0x85:
			r.add(positionOf(s, data, i), "", fmt.Sprintf("a control character (%#U)", c), "")
			return false
		}
	}
	return true
}

// positionOf is the line and column of a byte.
func positionOf(s *source, data []byte, offset int) position {
	start := bytes.LastIndexByte(data[:offset], '\n') + 1
	return position{s, 1 + bytes.Count(data[:start], []byte("\n")), 1 + utf8.RuneCount(data[start:offset])}
}

var lineOf = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// explained rewrites messages of the YAML library.
var explained = []struct{ message, problem, hint string }{
	{"did not find expected ',' or ']'", "the list that starts here is not closed, or lacks a comma", ""},
	{"did not find expected ',' or '}'", "the map that starts here is not closed, or lacks a comma", ""},
	{"did not find expected node content", "a value is missing here, or a bracket is not closed", ""},
	{"did not find expected key", "this line does not fit in here", "check its indentation"},
	{"did not find expected '-' indicator", "this line does not fit into the list above it", "check its indentation"},
	{"mapping values are not allowed in this context", "a key cannot stand here", `check the indentation, and quote text that contains ": "`},
	{"found unexpected end of stream", "the quoted text is not closed", ""},
	{"did not find expected alphabetic or numeric character", `"*" and "&" start aliases and anchors in YAML`, `quote the text: "* * * * *"`},
	{"found character that cannot start any token", "this character cannot start a value", "quote the text"},
	{"exceeded max depth", "nested too deep", ""},
}

// syntaxError returns the position and the cause of a syntax error.
func syntaxError(s *source, data []byte, err error) (p position, problem, hint string) {
	m := lineOf.FindStringSubmatch(err.Error())
	if m == nil {
		return position{s, 1, 1}, err.Error(), ""
	}
	line, _ := strconv.Atoi(m[1])
	message := m[2]
	problem = message
	for _, e := range explained {
		if strings.HasPrefix(message, e.message) {
			problem, hint = e.problem, e.hint
		}
	}
	switch {
	case strings.HasPrefix(message, "did not find expected key"), strings.HasPrefix(message, "did not find expected '-'"):
		line = firstBadLine(data, message)
	case strings.HasPrefix(message, "did not find expected ','"), strings.HasPrefix(message, "did not find expected node"):
		line++ // the library counts these from 0
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(message, "unknown anchor "), " referenced"), "'")
		if i := bytes.Index(data, []byte("*"+name)); i >= 0 {
			return positionOf(s, data, i), fmt.Sprintf("there is no anchor &%s above", name), ""
		}
	}
	line = max(line, 1)
	lines := strings.Split(string(data), "\n")
	text := at(lines, line)
	if strings.HasPrefix(message, "did not find expected ','") {
		if value := unquoted(lines, line); value != "" {
			hint = fmt.Sprintf("within {} and [] a value with ${…} needs quotes: %q", value)
		}
	}
	if blanks := indent(text, " "); strings.HasPrefix(text[blanks:], "\t") {
		return position{s, line, 1 + blanks}, "a tab in the indentation", "indent with blanks"
	}
	return position{s, line, 1 + indent(text, " \t")}, problem, hint
}

// bareVariable is a value with a variable that is not in quotes.
var bareVariable = regexp.MustCompile(`[:,\[{] *([^"'\s,\[\]{}$]*\$\{[a-zA-Z_][^}\s]*\})`)

// unquoted is the first such value in the list or map that starts at a line, up to the next line with the same or less
// indentation; "" for none.
func unquoted(lines []string, line int) string {
	for i := line; ; i++ {
		text := at(lines, i)
		if i > line && indent(text, " ") <= indent(at(lines, line), " ") {
			return ""
		}
		if m := bareVariable.FindStringSubmatch(text); m != nil {
			return m[1]
		}
	}
}

// at is a line, counted from 1; "" for one that is not there.
func at(lines []string, line int) string {
	if line > len(lines) {
		return ""
	}
	return lines[line-1]
}

// indent is the number of characters in front of a line that are among those given.
func indent(text, blanks string) int { return len(text) - len(strings.TrimLeft(text, blanks)) }

// searchable bounds the files in which the line of a syntax error is searched: that parses the file several times.
const searchable = 1 << 20

// firstBadLine finds the line at which the YAML library first fails with message: it reports only where the block
// began, which may be the first line of the file.
func firstBadLine(data []byte, message string) int {
	if len(data) > searchable {
		return 1
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		err := decode(yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:i+1], nil))), &yaml.Node{})
		return err != nil && strings.HasSuffix(err.Error(), message)
	})
}
