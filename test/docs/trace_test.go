package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// trace is one path through the files, as docs/decisions.md has it: lines of files, each behind the letter of its folder.
type trace struct {
	crosses int // files, as the text in front of it says
	lines   []string
}

var (
	traceFolder = regexp.MustCompile("\\b([A-Z]) `([a-z/]+)`")
	traceCount  = regexp.MustCompile(`crosses (\d+)\b`)
	traceFile   = regexp.MustCompile(`(?:\b([A-Z]) )?([a-z_]+\.go)(?: \(([\w, ]+)\))?`)
)

// The trace of a trigger, and that of a task, name files and functions that are there, and as many files as the text says.
func TestTrace(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/decisions.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders, traces := readTraces(t, string(text))
	if len(folders) < 6 || len(traces) != 2 {
		t.Fatalf("%d folders and %d traces", len(folders), len(traces))
	}
	for _, tr := range traces {
		seen, problems := followTrace(tr, folders, func(file string) (string, error) {
			text, err := os.ReadFile(filepath.Join(root, file))
			return string(text), err
		})
		for _, problem := range problems {
			t.Error(problem)
		}
		if seen != tr.crosses {
			t.Errorf("the trace that begins with %q crosses %d files, and the text says %d", tr.lines[0], seen, tr.crosses)
		}
	}
}

// What is wrong with a trace is found.
func TestWrongTraceIsFound(t *testing.T) {
	files := map[string]string{"a/one.go": "func One() {}\n", "b/two.go": "func (t *T) Two() {}\n"}
	read := func(file string) (string, error) {
		text, ok := files[file]
		if !ok {
			return "", os.ErrNotExist
		}
		return text, nil
	}
	for line, want := range map[string]int{
		"due  A one.go (One); B two.go (Two), A one.go": 0,
		"due  A one.go, two.go":                         1,
		"due  A one.go (Two)":                           1,
		"due  C one.go":                                 1,
		"due  one.go":                                   1,
	} {
		if _, problems := followTrace(trace{lines: []string{line}}, map[string]string{"A": "a", "B": "b"}, read); len(problems) != want {
			t.Errorf("%s: %q", line, problems)
		}
	}
}

// readTraces finds the folders, and the indented lines behind each count.
func readTraces(t *testing.T, text string) (folders map[string]string, traces []trace) {
	t.Helper()
	_, text, found := strings.Cut(text, "### A trigger and a task, file by file\n")
	text, _, ended := strings.Cut(text, "\n## ")
	if !found || !ended {
		t.Fatal("docs/decisions.md has no section with the traces")
	}
	folders = map[string]string{}
	for _, m := range traceFolder.FindAllStringSubmatch(text, -1) {
		folders[m[1]] = m[2]
	}
	crosses, inside := 0, false
	for line := range strings.Lines(text) {
		if m := traceCount.FindStringSubmatch(line); m != nil {
			crosses, _ = strconv.Atoi(m[1])
		}
		if strings.HasPrefix(line, "    ") {
			if !inside {
				traces = append(traces, trace{crosses: crosses})
			}
			last := &traces[len(traces)-1]
			last.lines = append(last.lines, strings.TrimSpace(line))
		}
		inside = strings.HasPrefix(line, "    ")
	}
	return folders, traces
}

// followTrace looks up each file and function, and counts the files.
func followTrace(tr trace, folders map[string]string, read func(file string) (string, error)) (files int, problems []string) {
	var seen []string
	for _, line := range tr.lines {
		letter := ""
		for _, m := range traceFile.FindAllStringSubmatch(line, -1) {
			if m[1] != "" {
				letter = m[1]
			}
			folder, known := folders[letter]
			if !known {
				problems = append(problems, fmt.Sprintf("%s: no folder has the letter %q", m[2], letter))
				continue
			}
			file := folder + "/" + m[2]
			text, err := read(file)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", line, err))
				continue
			}
			if !slices.Contains(seen, file) {
				seen = append(seen, file)
			}
			for name := range strings.SplitSeq(m[3], ", ") {
				if name != "" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+name+`[\[(]`).MatchString(text) {
					problems = append(problems, fmt.Sprintf("%s has no function %s", file, name))
				}
			}
		}
	}
	return len(seen), problems
}
