package main

import (
	"runtime"
	"runtime/debug"
)

// The garbage collector of Go runs when the heap has doubled, and a replica with few jobs has 4 MB in use: it would run 40 times a second
// while a pool drains, for a fifth of the replica's processor time.
const (
	spareHeap   = 64 << 20 // bytes that may be garbage, where less is in use
	mostPercent = 400
)

// collectLater makes the garbage collector wait for more garbage, by what is in use now: the configuration is loaded, which is most of it.
// GOGC and GOMEMLIMIT of the environment hold as they are.
func collectLater(env func(string) (string, bool)) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, set := env(name); set {
			return
		}
	}
	runtime.GC() // what loading has left is garbage
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(garbagePercent(m.HeapAlloc))
}

// garbagePercent is how much garbage there may be to what is in use, as GOGC has it.
func garbagePercent(inUse uint64) int {
	return int(min(max(spareHeap*100/max(inUse, 1), 100), mostPercent)) //nolint:gosec // at most mostPercent
}
