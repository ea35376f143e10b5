package store

import "testing"

// A slice that was given back is empty, and holds nothing of the call that had it.
func TestAReusedSliceHoldsNothing(t *testing.T) {
	var r reused[*int]
	if got := r.take(); len(got) != 0 {
		t.Fatalf("the first has %d elements", len(got))
	}
	n := 7
	list := append(make([]*int, 0, 4), &n, &n)
	r.give(list[:1])
	if list[0] != nil || list[1] != nil {
		t.Error("what was in the slice is still in its memory")
	}
	if got := r.take(); len(got) != 0 {
		t.Errorf("a slice that was given back has %d elements", len(got))
	}
}
