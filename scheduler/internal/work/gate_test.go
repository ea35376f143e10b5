package work

import "testing"

// A gate that is closed lets nothing in, and is empty when the last one has left.
func TestAGateIsEmptyWhenTheLastOneHasLeft(t *testing.T) {
	isEmpty := func(empty <-chan struct{}) bool {
		select {
		case <-empty:
			return true
		default:
			return false
		}
	}
	for _, inside := range []int{0, 1, 3} {
		var g gate
		if !g.enter() {
			t.Fatal("an open gate lets nothing in")
		}
		g.leave() // an open gate may be empty for a while
		for range inside {
			if !g.enter() {
				t.Fatal("an open gate lets nothing in")
			}
		}
		empty := g.close()
		if g.enter() {
			t.Error("a closed gate lets something in")
		}
		for left := inside; left > 0; left-- {
			if isEmpty(empty) {
				t.Fatalf("empty, with %d inside", left)
			}
			g.leave()
		}
		if !isEmpty(empty) {
			t.Errorf("not empty, though all %d have left", inside)
		}
	}
}
