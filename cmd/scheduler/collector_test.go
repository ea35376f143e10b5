package main

import (
	"runtime/debug"
	"testing"
)

// Little in use leaves room for garbage; much in use does not multiply it, and what the environment says holds.
func TestGarbageThatIsLeft(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 400, 4 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 30: 100} {
		if got := garbagePercent(inUse); got != want {
			t.Errorf("with %d bytes in use: %d %%, want %d", inUse, got, want)
		}
	}
	for name, changed := range map[string]bool{"": true, "HOME": true, "GOGC": false, "GOMEMLIMIT": false} {
		before := debug.SetGCPercent(77)
		collectLater(func(asked string) (string, bool) { return "100", asked == name })
		if after := debug.SetGCPercent(before); (after != 77) != changed {
			t.Errorf("with %q in the environment: %d %%", name, after)
		}
	}
}
