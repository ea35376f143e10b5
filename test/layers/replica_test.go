package layers

import (
	"slices"
	"strings"
	"testing"
)

// parts are the packages of a replica, in order: each may import those before it.
var parts = []string{"wake", "plan", "membership", "scheduler"}

// partsApart gives the reason for each import against that order.
var partsApart = map[[2]string]string{
	{"wake", "plan"}:            "waiting knows nothing of what is waited for",
	{"wake", "membership"}:      "waiting knows nothing of what is waited for",
	{"wake", "scheduler"}:       "waiting knows nothing of what is waited for",
	{"plan", "membership"}:      "what is defined does not depend on which replicas live",
	{"plan", "scheduler"}:       "what is defined does not depend on what is done",
	{"membership", "scheduler"}: "the session is kept whatever else a replica does: it says what has changed by hooks",
}

// part is the name of a package of the replica, of those in parts.
func part(name string) (string, bool) {
	if below, ok := strings.CutPrefix(name, "scheduler/internal/"); ok {
		name = below
	}
	return name, slices.Contains(parts, name)
}

// partForbidden says why a package of the replica must not import another one; empty if it may.
func partForbidden(from, to string) string {
	a, isPart := part(from)
	b, isOther := part(to)
	if !isPart || !isOther || slices.Index(parts, a) >= slices.Index(parts, b) {
		return ""
	}
	return partsApart[[2]string{a, b}]
}

func TestPartsOfAReplica(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		if _, isPart := part(p.name()); isPart {
			seen++
		} else if home, _, _ := place(p.name()); home == "scheduler" {
			t.Errorf("%s has no place among the parts of a replica", p.name())
		}
		for _, to := range p.Imports {
			if own, isOurs := ours(to); isOurs {
				if why := partForbidden(p.name(), own); why != "" {
					t.Errorf("%s imports %s: %s", p.name(), own, why)
				}
			}
		}
	}
	if seen != len(parts) {
		t.Errorf("%d of %d parts seen", seen, len(parts))
	}
	for i, from := range parts {
		for _, to := range parts[i+1:] {
			if partForbidden(from, to) == "" {
				t.Errorf("%s must not import %s, but no reason is given", from, to)
			}
			if why := partForbidden(to, from); why != "" {
				t.Errorf("%s may import %s, and is refused: %s", to, from, why)
			}
		}
	}
}
