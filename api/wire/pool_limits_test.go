package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Each limit is checked alone, and a burst by the rate beside it. The error names the key.
func TestCheckOfPoolLimits(t *testing.T) {
	for _, c := range []struct {
		o    PoolLimits
		says string
	}{
		{PoolLimits{}, "<nil>"},
		{PoolLimits{MaxRunning: new(0), Rate: new(jobs.Rate), Burst: new(0)}, "<nil>"},
		{PoolLimits{MaxRunning: new(1_000_000), Burst: new(1_000_000)}, "<nil>"},
		{PoolLimits{Rate: &jobs.Rate{Count: 1, Per: 24 * time.Hour}, Burst: new(366)}, "<nil>"},
		{PoolLimits{Rate: &jobs.Rate{Count: 1, Per: 24 * time.Hour}, Burst: new(367)}, "burst: 367 takes longer than a year to fill at 1/d; use at most 366"},
		{PoolLimits{Burst: new(-1)}, "burst: -1 is out of range 0–1000000"},
		{PoolLimits{MaxRunning: new(1_000_001), Burst: new(-1)}, "max_running: 1000001 is out of range 0–1000000"},
		{PoolLimits{Rate: &jobs.Rate{Count: 1}}, "rate: the time is out of range; allowed: 1s to 24h"},
	} {
		err := c.o.Check()
		if got := fmt.Sprint(err); got != c.says {
			t.Errorf("%s, want %s", got, c.says)
		}
		if _, ok := errors.AsType[*jobs.FieldError](err); ok != (err != nil) {
			t.Errorf("%T", err)
		}
	}
}
