package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*\b`)
	definedTest = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// Every test that a document names as what holds its word is there.
func TestNamedTestsExist(t *testing.T) {
	defined := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range definedTest.FindAllStringSubmatch(string(text), -1) {
			defined[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(defined) < 100 {
		t.Fatalf("only %d tests were found", len(defined))
	}
	for _, file := range markdown(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, name := range namedTest.FindAllString(line, -1) {
				if !defined[name] {
					t.Errorf("%s:%d: there is no test %s", file, i+1, name)
				}
			}
		}
	}
}

// Every document is one line of the index, so that it can be found.
func TestIndex(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range markdown(t) {
		name, inDocs := strings.CutPrefix(file, "docs/")
		if inDocs && name != "README.md" && !strings.Contains(string(text), "]("+name+")") {
			t.Errorf("docs/README.md does not name %s; add a line that says what it is for", file)
		}
	}
}
