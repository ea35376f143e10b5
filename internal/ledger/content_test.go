package ledger

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The hash of a configuration stays as it is with each release: otherwise the first replica of a new one would be the newest, whatever its file says. A new field
// is left out of the JSON where it is not set.
func TestContentStaysAsItIs(t *testing.T) {
	d := Definitions{
		Jobs:  []JobDef{{Name: "a", Hash: "h1", Schedule: "s1"}, {Name: "b", Hash: "h2"}},
		Pools: []PoolDef{{Name: "default", Hash: "h3", MaxAttempts: 11, Retry: true, LostLimit: 3}, {Name: "mail", Hash: "h4", MaxRunning: 4, Rate: jobs.Rate{Count: 5, Per: time.Second}, Kinds: map[string]string{"": "x"}}},
	}
	if got := d.Content(); got != "d3549001ad83a965e83774042fc77ef427c9f00e31ee4f4cbdac923b5c4d5e80" {
		t.Errorf("it is %s", got)
	}
}
