package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The page has one row for each code, and no other.
func TestReasonsOfThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "jobs/reason/reason.go"))
	if err != nil {
		t.Fatal(err)
	}
	listed := found(text, "(?m)^\\| `([a-z_]+)` \\|")
	declared := found(source, `(?m)^\t\w+ +Code = "([a-z_]+)"`)
	if !slices.Equal(listed, declared) || len(declared) < 25 {
		t.Errorf("the page lists %v, there are %v", listed, declared)
	}
}

// found are the parts in parentheses of all matches.
func found(text []byte, pattern string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	return all
}
