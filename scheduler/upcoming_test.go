package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestUpcomingIsInOrder(t *testing.T) {
	u := newUpcoming()
	start := time.Unix(0, 0)
	model := map[string]time.Time{}
	for range 5000 {
		name := fmt.Sprint("job", rand.IntN(300))
		at := start.Add(time.Duration(1+rand.IntN(1000)) * time.Second)
		if rand.IntN(5) == 0 {
			at = time.Time{}
			delete(model, name)
		} else {
			model[name] = at
		}
		u.set(name, at)
	}
	all := func(string) bool { return true }
	for now := start; len(model) > 0; now = now.Add(50 * time.Second) {
		got := u.take(now, 1000, all)
		if !slices.IsSortedFunc(got, func(a, b string) int { return model[a].Compare(model[b]) }) {
			t.Fatal("not by time")
		}
		for _, name := range got {
			if model[name].After(now) {
				t.Fatalf("%s was taken early", name)
			}
			delete(model, name)
		}
		for name, at := range model {
			if !at.After(now) {
				t.Fatalf("%s was due at %v and not taken at %v", name, at, now)
			}
		}
	}
	if _, ok := u.next(); ok {
		t.Error("something is left")
	}
}

func TestUpcomingForgetsWhatIsNotWanted(t *testing.T) {
	u := newUpcoming()
	u.set("a", time.Unix(1, 0))
	u.set("b", time.Unix(2, 0))
	got := u.take(time.Unix(5, 0), 10, func(job string) bool { return job == "b" })
	if !slices.Equal(got, []string{"b"}) {
		t.Errorf("took %v", got)
	}
	if _, ok := u.next(); ok {
		t.Error("the unwanted one is still there")
	}
}
