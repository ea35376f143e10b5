package judge

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// What a replica's log must not have is found, and what only looks like it is not.
func TestLogs(t *testing.T) {
	for text, bad := range map[string]bool{
		"level=INFO msg=started\n":                                      false,
		"level=WARN msg=\"job failed\" error=\"panic: in a handler\"\n": false,
		"x\npanic: assignment to entry in nil map\n":                    true,
		"==================\nWARNING: DATA RACE\n":                      true,
		"fatal error: all goroutines are asleep\n":                      true,
		"SIGQUIT: quit\n":                                               true,
		"goroutine 7 [running]:\n":                                      true,
	} {
		h := clean(1)
		h.Run.Directory = t.TempDir()
		if err := os.Mkdir(filepath.Join(h.Run.Directory, history.LogsDir), 0o755); err != nil {
			t.Fatal(err)
		}
		h.Processes[0].Log = "a.log"
		if r := Judge(h); !slices.Equal(r.Broken(), []Invariant{Clean}) {
			t.Fatalf("a log that is not there:\n%s", r)
		}
		if err := os.WriteFile(filepath.Join(h.Run.Directory, history.LogsDir, "a.log"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := Judge(h); r.OK() == bad {
			t.Errorf("%q:\n%s", text, r)
		}
		h.Processes[0].Log, h.Execs[0].Log = "", "a.log"
		if r := Judge(h); r.OK() == bad {
			t.Errorf("%q of locks exec:\n%s", text, r)
		}
	}
}
