package jobs

import (
	"testing"
	"time"
)

// TestOrders: what is no order is refused, and so is a limit that an order by key makes useless.
func TestOrders(t *testing.T) {
	const several = "pools.p.per_key.max_running: with order: key the tasks of one key run one after the other; remove it, or write order: none"
	for _, c := range []struct {
		pool Pool
		says string
	}{
		{Pool{}, ""},
		{Pool{Order: OrderNone, PerKey: KeyLimits{MaxRunning: 7}}, ""},
		{Pool{PerKey: KeyLimits{MaxRunning: 7}}, ""},
		{Pool{Order: OrderKey}, ""},
		{Pool{Order: OrderKey, PerKey: KeyLimits{MaxRunning: 1, Rate: Rate{5, time.Second}, Burst: 10}}, ""},
		{Pool{Order: OrderKey, PerKey: KeyLimits{MaxRunning: 2}}, several},
		{Pool{Order: "fifo"}, `pools.p.order: "fifo" is unknown; use none or key`},
		{Pool{Order: "Key"}, `pools.p.order: "Key" is unknown; use none or key`},
		{Pool{PerKey: KeyLimits{MaxRunning: -1}}, "pools.p.per_key.max_running: -1 is out of range 0–1000000"},
		{Pool{PerKey: KeyLimits{Rate: Rate{-1, time.Second}}}, "pools.p.per_key.rate: the number is out of range; allowed: 1 to 1000000"},
		{Pool{Fair: &Fair{}}, ""},
		{Pool{Fair: &Fair{Weights: map[string]int{"a b": 1000, "c": 1}}, Order: OrderKey}, ""},
		{Pool{Fair: &Fair{Weights: map[string]int{"a": 0}}}, "pools.p.fair.weights.a: 0 is out of range 1–1000"},
		{Pool{Fair: &Fair{Weights: map[string]int{"a\n": 1}}}, `pools.p.fair.weights: key "a\n" must be at most 128 bytes of printable text`},
		{Pool{PerKind: map[string]KindLimits{"x": {MaxRunning: 7}}}, ""},
		{Pool{PerKind: map[string]KindLimits{"x": {}}, Kinds: map[string]Handler{"x": says("exec")}, PerKey: KeyLimits{MaxRunning: 1}}, ""},
		{Pool{PerKind: map[string]KindLimits{"x": {}}, Fair: &Fair{}}, "pools.p.per_kind: does not go with fair, as the tasks that wait for a kind start in the order of their priority and due time, whatever their keys; remove one of them"},
		{Pool{PerKind: map[string]KindLimits{"x": {}}, Kinds: map[string]Handler{"y": says("exec"), "z": says("exec")}}, `pools.p.per_kind.x: the pool has no kind "x"; name one of its kinds: y, z`},
		{Pool{PerKind: map[string]KindLimits{"x": {}}, Handler: says("exec")}, `pools.p.per_kind.x: the pool has no kind "x"; it has one handler and no kinds: write handlers of them in kinds, or remove the limit`},
		{Pool{PerKind: map[string]KindLimits{"x": {}}, Order: OrderKey}, "pools.p.per_kind: does not go with order: key, where a task that its kind holds up would hold up its key; remove one of them"},
		{Pool{PerKind: map[string]KindLimits{"x": {MaxRunning: -1}}}, "pools.p.per_kind.x.max_running: -1 is out of range 0–1000000"},
		{Pool{PerKind: map[string]KindLimits{"x": {Burst: -1}}}, "pools.p.per_kind.x.burst: -1 is out of range 0–1000000"},
		{Pool{PerKey: KeyLimits{Burst: -1}}, "pools.p.per_key.burst: -1 is out of range 0–1000000"},
	} {
		if got := text(Set{Pools: map[string]Pool{"p": c.pool}}.Validate()); got != c.says {
			t.Errorf("%+v: got %s\nwant %s", c.pool, got, c.says)
		}
	}
}

// TestHashesByKey: a pool without limits and order by key has the hash that it had before there were any, each of them changes it, and they
// are those of all replicas together: which replica runs a task does not depend on them.
func TestHashesByKey(t *testing.T) {
	const before = "13d3513d9c7730c4a5bee59299584460"
	pool := Pool{Workers: 8, Handler: says("exec")}
	seen := map[string]string{}
	for what, by := range map[string]Pool{
		"nothing":     {},
		"order none":  {Order: OrderNone},
		"order key":   {Order: OrderKey},
		"max running": {PerKey: KeyLimits{MaxRunning: 1}},
		"two":         {PerKey: KeyLimits{MaxRunning: 2}},
		"both":        {PerKey: KeyLimits{MaxRunning: 1}, Order: OrderKey},
		"rate":        {PerKey: KeyLimits{Rate: Rate{5, time.Second}}},
		"burst":       {PerKey: KeyLimits{Rate: Rate{5, time.Second}, Burst: 10}},
		"fair":        {Fair: &Fair{}},
		"weights":     {Fair: &Fair{Weights: map[string]int{"a": 2}}},
		"kind":        {PerKind: map[string]KindLimits{"x": {MaxRunning: 1}}},
		"other kind":  {PerKind: map[string]KindLimits{"y": {MaxRunning: 1}}},
		"of the pool": {Rate: Rate{5, time.Second}, Burst: 10},
	} {
		pool.PerKey, pool.PerKind, pool.Order, pool.Fair, pool.Rate, pool.Burst = by.PerKey, by.PerKind, by.Order, by.Fair, by.Rate, by.Burst
		hash, none := pool.Hash(), what == "nothing" || what == "order none"
		if none != (hash == before) {
			t.Errorf("%s: %s", what, hash)
		}
		if other, dup := seen[hash]; dup && !none {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[hash] = what
		if filled := pool.WithDefaults(); filled.Hash() != hash || filled.Order == "" || filled.ByKey() != pool.ByKey() {
			t.Errorf("%s: with its defaults it is %+v", what, filled)
		}
		if got := pool.HandlerHashes()[""]; got != (Pool{Handler: says("exec")}).HandlerHashes()[""] {
			t.Errorf("%s counts for the handler", what)
		}
		if by := what != "of the pool" && !none; pool.ByKey() != by {
			t.Errorf("%s: by key is %v", what, !by)
		}
	}
}

// TestHashOfNoWeights: no weights and none that are written are the same.
func TestHashOfNoWeights(t *testing.T) {
	if a, b := (Pool{Fair: &Fair{}}).Hash(), (Pool{Fair: &Fair{Weights: map[string]int{}}}).Hash(); a != b {
		t.Errorf("%s and %s", a, b)
	}
}
