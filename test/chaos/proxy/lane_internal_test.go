package proxy

import (
	"testing"
	"time"
)

// A slow lane is not slow by the same time for each part.
func TestJitter(t *testing.T) {
	lane := Lane{Delay: time.Second, Jitter: time.Second}
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		least, most = min(least, lane.wait()), max(most, lane.wait())
	}
	if least < time.Second || least > 1100*time.Millisecond || most < 1900*time.Millisecond || most > 2*time.Second {
		t.Errorf("from %v to %v", least, most)
	}
}
