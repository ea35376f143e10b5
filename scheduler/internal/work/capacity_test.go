package work

import "testing"

// What has a free worker is queued; what has none only once no replica with one has queued it, and not more than the pool has workers.
func TestCapacity(t *testing.T) {
	c := capacity{free: 1, any: 3}
	for i, want := range []struct{ late, taken bool }{{false, true}, {false, false}, {true, true}, {false, false}, {true, true}, {true, false}} {
		if got := c.take(want.late); got != want.taken {
			t.Errorf("%d: taken %v", i, got)
		}
	}
}
