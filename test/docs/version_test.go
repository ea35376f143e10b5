package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README names the Go version of go.mod.
func TestReadmeNamesTheGoThatIsNeeded(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	needed := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if needed == nil || !strings.Contains(string(readme), "Go "+string(needed[1])+" or newer") {
		t.Errorf("README.md does not say what go.mod does: %s", needed)
	}
}
