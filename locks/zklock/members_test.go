package zklock

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The names of the nodes of a queue say who holds the key, and who waits for whom.
func TestCrowd(t *testing.T) {
	c := membersOf([]string{
		"wait-1-aa-3-0000000012", "hold-shared-bb-1", "wait-shared-aa-4-0000000009", "pin-aa-5", "wait-3-cc-1-0000000010",
		"hold-shared-aa-9", "wait-shared-bb-7-0000000011", "wait-shared-cc-7-0000000008",
		"wait-0-aa-1-0000000001", "wait-x-aa-1-0000000001", "wait-1-aa-0000000001", "hold-1", "hold-shared-bb-1-0000000002", "by-hand",
	}, &zk.Stat{Version: 7})
	var names []string
	for _, m := range append(c.holders, c.places...) {
		names = append(names, m.name)
	}
	if diff := cmp.Diff([]string{
		"hold-shared-aa-9", "hold-shared-bb-1",
		"wait-shared-cc-7-0000000008", "wait-shared-aa-4-0000000009", "wait-3-cc-1-0000000010", "wait-shared-bb-7-0000000011", "wait-1-aa-3-0000000012",
	}, names); diff != "" || len(c.others) != 7 || c.version != 7 {
		t.Errorf("version %d, others %v, members (-want +got):\n%s", c.version, c.others, diff)
	}
	for at, want := range []string{"", "", "wait-shared-aa-4-0000000009", "wait-3-cc-1-0000000010", "wait-shared-bb-7-0000000011"} {
		if before, _ := c.before(at); before.name != want {
			t.Errorf("%s waits for %q, want %q", c.places[at].name, before.name, want)
		}
	}
	if p := c.places[2]; p.id != "cc-1" || p.session() != "cc" || p.kind != (kind{limit: 3}) || p.number != "0000000010" {
		t.Errorf("%+v", p)
	}
	for name, k := range map[string]struct {
		kind, holder kind
		holders      int
		joins        bool
	}{
		"nobody":             {kind{limit: 1}, kind{}, 0, true},
		"one alone":          {kind{limit: 1}, kind{limit: 1}, 1, false},
		"a reader":           {kind{shared: true}, kind{shared: true}, 9, true},
		"a writer":           {kind{limit: 1}, kind{shared: true}, 1, false},
		"room":               {kind{limit: 3}, kind{limit: 3}, 2, true},
		"full":               {kind{limit: 3}, kind{limit: 3}, 3, false},
		"another limit":      {kind{limit: 4}, kind{limit: 3}, 1, false},
		"a reader, no limit": {kind{shared: true}, kind{limit: 3}, 1, false},
	} {
		var holders []member
		for range k.holders {
			holders = append(holders, member{kind: k.holder})
		}
		if k.kind.joins(holders) != k.joins {
			t.Errorf("%s: want %t", name, k.joins)
		}
	}
	for _, w := range []driver.Want{{}, {Limit: 1}, {Limit: 12}, {Shared: true}} {
		if k, ok := parseKind(kindOf(w).String()); !ok || k != kindOf(w) {
			t.Errorf("%+v becomes %v", kindOf(w), k)
		}
	}
	if _, ok := parseKind("+1"); ok {
		t.Error("+1 is another name of 1")
	}
}
