package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var figure = regexp.MustCompile(`\b\d+(?:,\d{3})+\b|\b\d+\.\d+\b`)

// The figures of the page about pools are those of the page about performance.
func TestPoolsPageHasMeasuredFigures(t *testing.T) {
	page := strings.Join(section(t, "docs/pools.md", "## Limits, and what they cost"), "\n")
	measured, err := os.ReadFile(filepath.Join(root, "docs/performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, n := range figure.FindAllString(string(measured), -1) {
		known[n] = true
	}
	found := figure.FindAllString(page, -1)
	if len(found) < 4 {
		t.Fatalf("only the figures %v were found", found)
	}
	for _, n := range found {
		if !known[n] {
			t.Errorf("docs/pools.md has the figure %s, docs/performance.md does not; measure it, or take the one that was measured", n)
		}
	}
}

// section is the lines of a document behind a heading, up to the next one of its level.
func section(t *testing.T, file, title string) (lines []string) {
	t.Helper()
	level, _, _ := strings.Cut(title, " ")
	in := false
	for _, line := range prose(t, file) {
		switch {
		case line == title:
			in = true
		case strings.HasPrefix(line, level+" "):
			in = false
		case in:
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no section %q", file, title)
	}
	return lines
}
