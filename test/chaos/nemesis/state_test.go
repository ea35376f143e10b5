//go:build linux

package nemesis

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Commands are known by the file that they write to, and by whose they say they are.
func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "effects.jsonl")
	if all := commands(file); len(all) > 0 {
		t.Fatalf("%v, before there is one", all)
	}
	for _, name := range []string{file, file + "-of-another"} {
		cmd := exec.Command("sh", "-c", "read line", "sh", "-file", name, "-takes", "3s")
		cmd.Env = []string{"LOCKSTEP_REPLICA=r2", "LOCKSTEP_JOB=r1"}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stdin.Close() // ends it
			_ = cmd.Wait()
		})
		if name == file {
			poll(t.Context(), 5*time.Second, often, func() bool { return len(commands(file)["r2"]) > 0 })
		}
	}
	if all := commands(file); len(all) != 1 || len(all["r2"]) != 1 {
		t.Errorf("%v, and r2 has one", all)
	}
}
