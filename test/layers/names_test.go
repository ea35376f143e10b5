package layers

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var badNames = []string{"util", "utils", "common", "base", "types", "helpers", "misc", "shared"}

// Each imported module is in docs/dependencies.md, with a reason.
func TestDependenciesHaveReasons(t *testing.T) {
	text, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		named[row[1]] = false
	}
	for _, p := range packages(t) {
		for _, to := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if host, _, _ := strings.Cut(to, "/"); !strings.Contains(host, ".") || strings.HasPrefix(to, module) {
				continue
			}
			reason := false
			for mod := range named {
				if to == mod || strings.HasPrefix(to, mod+"/") {
					reason, named[mod] = true, true
				}
			}
			if !reason {
				t.Errorf("%s imports %s, which has no row in docs/dependencies.md", p.name(), to)
			}
		}
	}
	for mod, used := range named {
		if !used {
			t.Errorf("docs/dependencies.md has %s, which nothing imports", mod)
		}
	}
}

// The table of CONTRIBUTING.md has a row for each layer, with its packages.
func TestContributing(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| (.*?) \|`).FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	for name, l := range layers {
		if l <= wiring && !strings.Contains(rows[l.String()], "`"+name+"`") && !strings.Contains(rows[l.String()], "`"+path.Base(name)+"`") {
			t.Errorf("CONTRIBUTING.md does not name %s among the %s", name, l)
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		if _, _, ok := place(p.name()); !ok {
			t.Errorf("%s has no layer: name it in test/layers", p.name())
		}
		for part := range strings.SplitSeq(p.name(), "/") {
			if slices.Contains(badNames, part) {
				t.Errorf("%s: %q says nothing about what is in it", p.name(), part)
			}
		}
	}
}
