package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gap is a line of a Go block that stands for any lines of the file.
const gap = "// …"

// Every Go block stands, line by line, in a Go file that runs: in a program below examples, which has a
// test, in a test below this folder, or in an example of a package. Indentation may differ, and empty
// lines; a line "// …" stands for lines that are left out.
func TestGo(t *testing.T) {
	sources := goSources(t)
	found := 0
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			if b.language != "go" || b.notRun != "" || file == locksPage { // TestLocksPage compiles that one
				continue
			}
			found++
			if problem := lookUp(b.body, sources); problem != "" {
				t.Errorf("%s: %s", b.at(), problem)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks of Go were found", found)
	}
}

// goSources are the files that run, as lines.
func goSources(t *testing.T) map[string][]string {
	t.Helper()
	sources := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		runs := strings.HasPrefix(file, "examples/") || strings.HasPrefix(file, "test/docs/") && filepath.Dir(file) != "test/docs" ||
			strings.HasPrefix(filepath.Base(file), "example") && strings.HasSuffix(file, "_test.go")
		if !runs {
			return nil
		}
		text, err := os.ReadFile(path)
		sources[file] = significant(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 5 {
		t.Fatalf("only %d Go files were found", len(sources))
	}
	return sources
}

// significant are the lines of a text without indentation, and without those that are empty.
func significant(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// lookUp returns what differs in a block: nothing if one of the files has it, else how far the best one matches.
func lookUp(body string, sources map[string][]string) string {
	wanted := significant(body)
	best, file := 0, ""
	for name, lines := range sources {
		for start := range lines {
			n := follows(wanted, lines[start:])
			if n == len(wanted) {
				return ""
			}
			if n > best {
				best, file = n, name
			}
		}
	}
	if best == 0 {
		return fmt.Sprintf("no file that runs has the line %q; put the code into test/docs/embedding or into an example", wanted[0])
	}
	return fmt.Sprintf("%s matches up to the line before %q", file, wanted[best])
}

// follows counts the lines of a block that match a file, from its first line on.
func follows(wanted, lines []string) int {
	for n, line := range wanted {
		if line == gap {
			rest, most := wanted[n+1:], 0
			for skip := range lines {
				most = max(most, follows(rest, lines[skip:]))
			}
			return n + 1 + most
		}
		if len(lines) == 0 || lines[0] != line {
			return n
		}
		lines = lines[1:]
	}
	return len(wanted)
}

// A difference from the file is reported with its line.
func TestLookUp(t *testing.T) {
	sources := map[string][]string{"a.go": significant("func a() {\n\tone()\n\n\ttwo()\n\tthree()\n}\n")}
	for body, want := range map[string]string{
		"one()\ntwo()\n":                   "",
		"func a() {\n  one()\n\n  two()\n": "",
		"func a() {\n\t// …\n\tthree()\n}": "",
		"one()\nthree()\n":                 `before "three()"`,
		"one()\n// …\nfour()\n":            `before "four()"`,
		"four()\n":                         `has the line "four()"`,
	} {
		problem := lookUp(body, sources)
		if (problem == "") != (want == "") || !strings.Contains(problem, want) {
			t.Errorf("%q: %q, want %q", body, problem, want)
		}
	}
	if !slices.Equal(significant("\n a\n\n\tb"), []string{"a", "b"}) {
		t.Error("lines")
	}
}
