//go:build linux

package arena

import (
	"debug/buildinfo"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/clock"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// What is built.
const (
	SchedulerSource = "github.com/lockstep-scheduler/lockstep/cmd/scheduler"
	StaleSource     = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/stale"
	HolderSource    = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/holder"
	WaiterSource    = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/waiter"
	commandSource   = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/ledger"
	lockedSource    = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/locked"
	workerSource    = "github.com/lockstep-scheduler/lockstep/test/chaos/cmd/worker"
)

// Race builds the scheduler of this source with the race detector.
func Race(t testing.TB) string { return program.BuildWith(t, SchedulerSource, program.Race) }

// Plain builds the scheduler without the race detector, whose memory would count.
func Plain(t testing.TB) string { return program.Build(t, SchedulerSource) }

// raced reports whether a program was built with the race detector.
func raced(t testing.TB, file string) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// RaceWithClock is Race with a wall clock that can be stepped.
func RaceWithClock(t testing.TB) string {
	t.Helper()
	stepped.Lock()
	defer stepped.Unlock()
	if stepped.flags == nil {
		overlay, err := clock.Overlay(program.Dir(t))
		if err != nil {
			t.Fatal(err)
		}
		stepped.flags = slices.Concat(program.Race, overlay)
	}
	return program.BuildWith(t, SchedulerSource, stepped.flags)
}

// stepped are the flags of RaceWithClock: always the same, so that it builds once.
var stepped struct {
	sync.Mutex
	flags []string
}
