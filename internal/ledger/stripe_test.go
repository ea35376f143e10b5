package ledger

import (
	"testing"
	"time"
)

// Replicas of all versions agree on the stripe of a name, and names are spread over all of them.
func TestStripe(t *testing.T) {
	for name, want := range map[string]int{"nightly-backup": 56, "hourly-mail": 17, "a": 10, "Zürich": 2} {
		if got := Stripe(name); got != want {
			t.Errorf("Stripe(%q) = %d, want %d", name, got, want)
		}
	}
	used := map[int]int{}
	for i := range 6400 {
		used[Stripe(time.Duration(i).String())]++
	}
	for s, n := range used {
		if s < 0 || s >= Stripes || n < 50 || n > 170 {
			t.Errorf("stripe %d has %d of 6400 names", s, n)
		}
	}
}
