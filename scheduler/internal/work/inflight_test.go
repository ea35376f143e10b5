package work

import "testing"

// Nothing begins once it drains, which is over when the last one has ended.
func TestInflightIsDrainedWhenTheLastOneHasEnded(t *testing.T) {
	over := func(drained <-chan struct{}) bool {
		select {
		case <-drained:
			return true
		default:
			return false
		}
	}
	for _, n := range []int{0, 1, 3} {
		var f inflight
		if !f.begin() {
			t.Fatal("nothing begins, and it does not drain")
		}
		f.end() // it may be 0 for a while
		for range n {
			if !f.begin() {
				t.Fatal("nothing begins, and it does not drain")
			}
		}
		drained := f.drain()
		if f.begin() {
			t.Error("something begins in a drain")
		}
		for left := n; left > 0; left-- {
			if over(drained) {
				t.Fatalf("drained, with %d in flight", left)
			}
			f.end()
		}
		if !over(drained) {
			t.Errorf("not drained, though all %d have ended", n)
		}
	}
}
