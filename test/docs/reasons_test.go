package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The page has one row for each code, and no other.
func TestReasonsOfThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []reason.Code
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, reason.Code(row[1]))
	}
	if !slices.Equal(listed, reason.All()) {
		t.Errorf("the page lists %v, there are %v", listed, reason.All())
	}
}
