package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// same reports how two trees differ in what is read: not in comments.
func same(a, b *yaml.Node) string {
	alias := func(n *yaml.Node) (line int) {
		if n.Alias != nil {
			line = n.Alias.Line
		}
		return line
	}
	switch {
	case a.Kind != b.Kind || a.Style != b.Style || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor || alias(a) != alias(b) || len(a.Content) != len(b.Content):
		return fmt.Sprintf("line %d: %v %v %q %q, line %d: %v %v %q %q", a.Line, a.Kind, a.Tag, a.Value, a.Anchor, b.Line, b.Kind, b.Tag, b.Value, b.Anchor)
	case a.Line != b.Line || a.Column != b.Column:
		return fmt.Sprintf("%q is in line %d, column %d; %d, %d", a.Value, a.Line, a.Column, b.Line, b.Column)
	}
	for i := range a.Content {
		if is := same(a.Content[i], b.Content[i]); is != "" {
			return is
		}
	}
	return ""
}

// asWhole judges what inParts makes of a text with parts of any size, and reports whether it was parsed in parts.
func asWhole(t *testing.T, text string) (parted bool) {
	t.Helper()
	whole, err := document([]byte(text))
	for _, least := range []int{1, 12, 60, 500} {
		root := inParts([]byte(text), least, 2)
		switch {
		case root == nil:
			continue
		case err != nil:
			t.Errorf("%s\nparts of %d bytes: it was parsed, and is wrong: %v", text, least, err)
		default:
			if is := same(whole, root); is != "" {
				t.Errorf("%s\nparts of %d bytes: %s", text, least, is)
			}
		}
		parted = true
	}
	return parted
}

// A file in parts is what it is as a whole, or is not parsed in parts.
func TestPartsAsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"jobs last":                   {"version: 1\njobs:\n  a:\n    x: 1\n  b: {y: 2}\n  c: [3,\n    4]\n", true},
		"jobs in the middle":          {"version: 1\njobs:   # many\n\n  # the first\n  a: 1\n\n  b: 2\n# the last\n  c: 3\npools:\n  p: {}\n", true},
		"no line at the end":          {"jobs:\n  a: 1\n  b: 2", true},
		"after a document mark":       {"---\njobs:\n  a: 1\n  b: 2\n...\n", true},
		"indented by four":            {"jobs:\n    a:\n     x: 1\n    b:\n      - 2\n", true},
		"a block text between":        {"jobs:\n  a: |+\n    text\n\n    more\n\n\n  b: >-\n    x\n  c: 1\n\n\npools: {}\n", true},
		"a block text at the end":     {"jobs:\n  a: 1\n  b: |+\n    text\n\n\npools: {}\n", true},
		"a text of several lines":     {"jobs:\n  a: one\n   two\n  b: three\n", true},
		"anchors within a job":        {"jobs:\n  a: &x {y: 1}\n  b:\n    c: &x {z: 2}\n    d: *x\n", true},
		"an anchor of the map":        {"jobs:\n  &all\n  a: 1\n  b: 2\n", true},
		"a list as far as its key":    {"jobs:\n  a:\n  - x: 1\n  - y: 2\n  b: 1\n", true},
		"names twice":                 {"jobs:\n  a: 1\n  a: 2\njobs:\n  b: 1\n  c: 2\n", true},
		"two keys for jobs":           {"\"jobs\":\njobs:\n  a: 1\n  b: 2\n", true},
		"an anchor further left":      {"jobs:\n  &all\n    a: 1\n  b: 2\n", false},
		"brackets and then a key":     {"jobs:\n  {\n  a: 1}\n  b: 2\n", false},
		"a return in a text":          {"jobs:\n  a: \"x\ry\"\n  b: 1\n  c: 2\n", false},
		"an end of a line in a text":  {"jobs:\n  a: \"x\u2028y\"\n  b: 1\n  c: 2\n", false},
		"a key with a comment in it":  {"jobs:# x\n  a: 1\n  b: 2\n", false},
		"text that looks like a key":  {"jobs:\n  a: \"text\n  b: more\"\n", false},
		"a list that goes on":         {"jobs:\n  a: [1,\n  b: 2]\n", false},
		"an anchor before":            {"x-all: &x {y: 1}\njobs:\n  a: *x\n  b: 1\n", false},
		"an anchor of another job":    {"jobs:\n  a: &x {y: 1}\n  b: *x\n", false},
		"an anchor of two other jobs": {"jobs:\n  a: &x 1\n  b: &x 2\n  c: *x\n", false},
		"in brackets":                 {"jobs: {\n  a: 1,\n  b: 2\n  }\n", false},
		"a list":                      {"jobs:\n  - a\n  - b\n", false},
		"one job":                     {"jobs:\n  a: 1\n", false},
		"no jobs":                     {"jobs:\npools: {}\n", false},
		"jobs that are a text":        {"x-note: 'one\njobs:\n  a: 1\n  b: 2\n  end'\n", false},
		"jobs in a text":              {"x: |\n jobs:\n   a: 1\n   b: 2\n", false},
		"lines that end otherwise":    {"jobs:\r\n  a: 1\r\n  b: 2\r\n", false},
		"another end of a line":       {"x: \"a\u2028b\"\njobs:\n  a: 1\n  b: 2\n", false},
		"a job too far left":          {"jobs:\n  a: 1\n b: 2\n  c: 3\n", false},
		"a second document":           {"jobs:\n  a: 1\n  b: 2\n---\nx: 1\n", false},
		"a tab":                       {"jobs:\n  a: 1\n\tb: 2\n  c: 3\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if parted := asWhole(t, c.text); parted != c.want {
				t.Errorf("parsed in parts: %v, want %v", parted, c.want)
			}
		})
	}
}

// So is a file with everything that a file may have.
func TestExampleInParts(t *testing.T) {
	text, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !asWhole(t, string(text)) {
		t.Error("it was not parsed in parts")
	}
}

func FuzzInParts(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d seeds, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 4<<10 { // in parts of one line, more takes too long
			asWhole(t, text)
		}
	})
}
