package main

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestNotesOfPools: below the list stands which pool was paused since its attempts failed, and how to go on.
func TestNotesOfPools(t *testing.T) {
	pools := []wire.Pool{{Name: "a", Paused: true, PausedBy: "ann"}, {Name: "mail", Paused: true, PausedBy: "pause_on", PausedReason: "5 of the last 9 attempts failed"}}
	want := "mail was paused by pause_on: 5 of the last 9 attempts failed; 'scheduler pools resume mail' resumes it\n"
	if got := notesOfPools(pools); got != want {
		t.Errorf("%q", got)
	}
	pools[0].PauseOn = &wire.PauseOn{Failures: "50%", Of: 100}
	if got := notesOfPools(pools[:1]); got != "a pauses itself when 50% of its last 100 attempts have failed\n" {
		t.Errorf("%q", got)
	}
	pools[0].PauseOn = nil
	if got := notesOfPools(pools[:1]); got != "" {
		t.Errorf("%q", got)
	}
}
