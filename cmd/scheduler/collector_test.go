package main

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
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

// A replica has set it when it listens.
func TestAReplicaLeavesGarbage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	put(t, file, "version: 1\nserver: {listen: \"127.0.0.1:0\"}\n")
	log := &logged{}
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: log, now: time.Now}
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- a.execute(ctx, []string{"serve", "-c", file}) }()
	await.Until(t, "it listens", func() bool { return log.has(`"msg":"listening"`) })
	after := debug.SetGCPercent(77)
	stop()
	if code := <-ended; code != exitFine || after == 77 {
		t.Errorf("exit code %d, %d %%: %s", code, after, log.text.String())
	}
}
