//go:build linux

package nemesis

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// Each nemesis has a name of its own and fits somewhere, and each cell has plenty.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range All() {
		if seen[n.Name] || n.Strike == nil || !slices.ContainsFunc(arena.Cells, n.FitsIn) {
			t.Errorf("%s is there twice, or does nothing, or fits nowhere", n.Name)
		}
		seen[n.Name] = true
		if named, err := Named(n.Name); err != nil || named.Name != n.Name {
			t.Errorf("%s is found as %s, %v", n.Name, named.Name, err)
		}
	}
	if _, err := Named("unknown"); err == nil {
		t.Error("there is one that is not there")
	}
	for _, c := range arena.Cells {
		if n := len(Fitting(c)); n < 10 {
			t.Errorf("%s: %d nemeses", c, n)
		}
	}
}

// The page names them all, and the cells, and none that is not there.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## What is broken")
	section, _, _ := strings.Cut(rest, "\n## ")
	named := map[string]bool{}
	for _, found := range regexp.MustCompile("`([a-z0-9+-]+)`").FindAllStringSubmatch(section, -1) {
		named[found[1]] = true
	}
	for _, n := range All() {
		if !named[n.Name] {
			t.Errorf("the page does not name %s", n.Name)
		}
		delete(named, n.Name)
	}
	for _, c := range arena.Cells {
		if !named[c.String()] {
			t.Errorf("the page does not name the cell %s", c)
		}
		delete(named, c.String())
	}
	if len(named) > 0 {
		t.Errorf("the page names %v, which is not there", named)
	}
}

// The same seed gives the same pairs, another one others; both of a pair fit, and do not meet.
func TestPairs(t *testing.T) {
	names := func(pairs [][2]Nemesis) string {
		var all []string
		for _, p := range pairs {
			all = append(all, p[0].Name+"+"+p[1].Name)
		}
		return fmt.Sprint(all)
	}
	for _, c := range arena.Cells {
		pairs := Pairs(c, 7, 10)
		if len(pairs) != 10 || names(pairs) != names(Pairs(c, 7, 10)) || names(pairs) == names(Pairs(c, 8, 10)) {
			t.Errorf("%s: %s", c, names(pairs))
		}
		for _, p := range AllPairs(c) {
			if p[0].waits && p[1].idles || p[1].waits && p[0].idles {
				t.Errorf("%s: %s with %s: one waits for work, and there is none", c, p[0].Name, p[1].Name)
			}
			if p[0].subject == p[1].subject || !p[0].FitsIn(c) || !p[1].FitsIn(c) || p[0].Long || p[1].Long {
				t.Errorf("%s: %s with %s", c, p[0].Name, p[1].Name)
			}
		}
	}
}
