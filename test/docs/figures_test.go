package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var figure = regexp.MustCompile(`\b\d+(?:,\d{3})+\b|\b\d+\.\d+\b`)

// The figures of the pages about pools, other products and capacity are those of the page about performance.
func TestPagesHaveMeasuredFigures(t *testing.T) {
	measured, err := os.ReadFile(filepath.Join(root, "docs/performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, n := range figure.FindAllString(string(measured), -1) {
		known[n] = true
	}
	for _, page := range []struct {
		file, title string
		upTo        string // in the section; "": all of it
		least       int    // figures
	}{
		{"docs/pools.md", "## Limits, and what they cost", "", 4},
		{"docs/comparison.md", "## Measured", "", 4},
		{"docs/operations.md", "## Capacity", "Beyond that, per replica", 3},
	} {
		text := code.ReplaceAllString(strings.Join(section(t, page.file, page.title), "\n"), "")
		if page.upTo != "" {
			within, _, ends := strings.Cut(text, page.upTo)
			if text = within; !ends {
				t.Fatalf("%s: %q is not in %s", page.file, page.upTo, page.title)
			}
		}
		found := figure.FindAllString(link.ReplaceAllString(text, "]"), -1)
		if len(found) < page.least {
			t.Fatalf("%s: only the figures %v were found", page.file, found)
		}
		for _, n := range found {
			if !known[n] {
				t.Errorf("%s has the figure %s, docs/performance.md does not; measure it, or take the one that was measured", page.file, n)
			}
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
