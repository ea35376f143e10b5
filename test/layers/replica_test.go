package layers

import (
	"slices"
	"strings"
	"testing"
)

// parts are the packages of a replica, in order: each may import those of the lines before its own.
var parts = [][]string{
	{"wake"},
	{"plan"},
	{"membership"},
	{"work", "triggers"},
	{"workers"},
	{"scheduler"},
}

// partsApart gives the reason for each import against that order.
var partsApart = map[[2]string]string{
	{"wake", "plan"}:            "waiting knows nothing of what is waited for",
	{"wake", "membership"}:      "waiting knows nothing of what is waited for",
	{"wake", "work"}:            "waiting knows nothing of what is waited for",
	{"wake", "triggers"}:        "waiting knows nothing of what is waited for",
	{"wake", "scheduler"}:       "waiting knows nothing of what is waited for",
	{"wake", "workers"}:         "waiting knows nothing of what is waited for",
	{"plan", "workers"}:         "what is defined does not depend on what is done",
	{"membership", "workers"}:   "the session is kept whatever else a replica does: it says what has changed by hooks",
	{"work", "workers"}:         "a replica does its own work whether there are workers or not: it says what has arrived by a hook",
	{"triggers", "workers"}:     "what is decided does not depend on who does it",
	{"workers", "scheduler"}:    "the scheduler wires the parts: they know each other by interfaces and hooks",
	{"plan", "membership"}:      "what is defined does not depend on which replicas live",
	{"plan", "work"}:            "what is defined does not depend on what is done",
	{"plan", "triggers"}:        "what is defined does not depend on what is done",
	{"plan", "scheduler"}:       "what is defined does not depend on what is done",
	{"membership", "work"}:      "the session is kept whatever else a replica does: it says what has changed by hooks",
	{"membership", "triggers"}:  "the session is kept whatever else a replica does: it says what has changed by hooks",
	{"membership", "scheduler"}: "the session is kept whatever else a replica does: it says what has changed by hooks",
	{"work", "triggers"}:        "a task is claimed, executed and recorded in the same way, whoever made it",
	{"triggers", "work"}:        "a decision needs workers and hands over tasks: triggers.Work says so in its few methods, and no more is to be known of the work",
	{"work", "scheduler"}:       "the scheduler wires the parts: they know each other by interfaces and hooks",
	{"triggers", "scheduler"}:   "the scheduler wires the parts: they know each other by interfaces and hooks",
}

// part is the name of a package of the replica and its line in parts; -1: it is none.
func part(name string) (string, int) {
	if below, ok := strings.CutPrefix(name, "scheduler/internal/"); ok {
		name = below
	}
	return name, slices.IndexFunc(parts, func(line []string) bool { return slices.Contains(line, name) })
}

// partForbidden says why a package of the replica must not import another one; empty if it may.
func partForbidden(from, to string) string {
	a, i := part(from)
	b, j := part(to)
	if i < 0 || i > j || a == b {
		return ""
	}
	return partsApart[[2]string{a, b}]
}

func TestPartsOfAReplica(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		if _, line := part(p.name()); line >= 0 {
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
	all := slices.Concat(parts...)
	if seen != len(all) {
		t.Errorf("%d of %d parts seen", seen, len(all))
	}
	for _, from := range all {
		for _, to := range all {
			_, i := part(from)
			_, j := part(to)
			reason := partsApart[[2]string{from, to}] != ""
			if forbidden := from != to && i <= j; forbidden != reason {
				t.Errorf("%s must not import %s: %t; a reason is given: %t", from, to, forbidden, reason)
			}
		}
	}
}
