package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The table of packages lists the dependencies of each.
func TestEmbeddingNamesWhatIsImported(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/embedding.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, within := range map[string][]string{"scheduler": {"jobs", "locks"}} {
		imports := imported(t, name)
		if len(imports) == 0 {
			t.Errorf("%s imports nothing", name)
		}
		for _, other := range within {
			known := imported(t, other)
			imports = slices.DeleteFunc(imports, func(path string) bool { return slices.Contains(known, path) })
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| `"+name+"` |") {
				continue
			}
			for _, path := range imports {
				if !strings.Contains(line, "`"+strings.TrimPrefix(path, "github.com/")+"`") {
					t.Errorf("docs/embedding.md does not say that %s imports %s: %s", name, path, line)
				}
			}
		}
	}
}

// imported are the packages of others that a package of ours needs.
func imported(t *testing.T, name string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+name)
	list.Dir = root
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(text)), func(path string) bool {
		return strings.HasPrefix(path, "github.com/lockstep-scheduler/lockstep/")
	})
}
