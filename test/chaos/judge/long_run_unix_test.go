//go:build unix

package judge

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// A long run is judged in less time than it takes to read it.
func TestLongRun(t *testing.T) {
	h := lasting(1, 10*time.Minute)
	for len(h.Effects) < 100_000 { // beats, mostly
		i := firstEffect(h, history.Beat, "slow")
		h.Effects = append(h.Effects, slices.Repeat(h.Effects[i:i+1], 100_000-len(h.Effects))...)
	}
	began := processor(t)
	r := Judge(h)
	if took := processor(t) - began; took > 5*time.Second {
		t.Errorf("the judge takes %v of processor time", took)
	}
	if !r.OK() || r.Triggers < 800 {
		t.Errorf("%s", r)
	}
	t.Logf("%d changes, %d effects in %v", len(h.Audit), len(h.Effects), processor(t)-began)
}

// processor is the processor time of this process: a busy machine is no slow judge.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
