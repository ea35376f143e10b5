package ledger_test

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// What is wanted has to be there: a label without a value is not a label that is missing.
func TestMatches(t *testing.T) {
	has := map[string]string{"zone": "a", "gpu": ""}
	for _, c := range []struct {
		wanted map[string]string
		want   bool
	}{
		{nil, true}, {map[string]string{"zone": "a"}, true}, {map[string]string{"zone": "a", "gpu": ""}, true},
		{map[string]string{"zone": "b"}, false}, {map[string]string{"zone": ""}, false}, {map[string]string{"team": ""}, false},
		{map[string]string{"zone": "a", "team": "x"}, false},
	} {
		if got := ledger.Matches(c.wanted, has); got != c.want {
			t.Errorf("%v: %t", c.wanted, got)
		}
	}
}
