package docs

import (
	"regexp"
	"strings"
	"testing"
)

var (
	cited     = regexp.MustCompile(`\]\((https://[^)\s]+)\)`)
	unpinned  = regexp.MustCompile(`github\.com/[^/]+/[^/]+/(?:blob|tree)/`)
	pinned    = regexp.MustCompile(`github\.com/[^/]+/[^/]+/(?:blob|tree)/(?:v\d+\.\d+\.\d+|[0-9a-f]{40})(?:/|$)`)
	ahead     = regexp.MustCompile(`^- \*\*(\w+)\*\* `)
	adjective = regexp.MustCompile(`(?i)\b(?:fast|faster|easy|easier|simple|simpler|powerful|robust|modern|mature|rich|richer|slow|slower|poor|good|better|best-in-class|great|excellent|superior|inferior)\b`)
)

// Each cell of the comparison about another product cites it, at a version; and the section about what others have that we do not names each.
func TestComparisonCites(t *testing.T) {
	rows := 0
	for _, title := range []string{"## What it is", "## What becomes of a task", "## Limits, order, uniqueness, schedules"} {
		for _, line := range section(t, "docs/comparison.md", title) {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if len(cells) != 7 || strings.Contains(line, "| Lockstep |") || strings.HasPrefix(line, "|---") {
				continue
			}
			rows++
			for i, cell := range cells[2:] {
				if text := strings.TrimSpace(cell); text != "–" && !cited.MatchString(text) {
					t.Errorf("row %q, column %d: %q has no link to a source", strings.TrimSpace(cells[0]), i+2, text)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were found", rows)
	}
	for i, line := range prose(t, "docs/comparison.md") {
		for _, m := range cited.FindAllStringSubmatch(line, -1) {
			if unpinned.MatchString(m[1]) && !pinned.MatchString(m[1]) {
				t.Errorf("docs/comparison.md:%d: %s is of no version, and may change", i+1, m[1])
			}
		}
		if word := adjective.FindString(line); word != "" {
			t.Errorf("docs/comparison.md:%d: %q judges; say what is so", i+1, word)
		}
	}
	named := map[string]bool{}
	for _, line := range section(t, "docs/comparison.md", "## Where they are ahead") {
		if m := ahead.FindStringSubmatch(line); m != nil {
			named[m[1]] = true
		}
	}
	for _, product := range []string{"River", "asynq", "Oban", "Faktory", "Sidekiq"} {
		if !named[product] {
			t.Errorf("docs/comparison.md does not say where %s is ahead", product)
		}
	}
}
