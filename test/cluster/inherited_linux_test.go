package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// Descriptors that a wrapper left open reach neither a command nor the warden. The replica itself can read them.
func TestNoCommandInheritsFilesOfTheReplica(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	left, leftEnd, err := os.Pipe() // a wrapper's, as descriptor 9
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	defer leftEnd.Close()
	config, write, err := os.Pipe() // descriptor 10
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	_, err = io.WriteString(write, fmt.Sprintf(`version: 1
store: {driver: sqlite, dsn: %[1]s/lockstep.db}
jobs:
  look:
    schedule: "* * * * * *"
    working_dir: %[1]s
    shell: |
      ls -l /proc/$$/fd /proc/$PPID/fd >found.tmp && mv found.tmp found
`, folder))
	if write.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program.Build(t, scheduler), "serve", "-c", "/dev/fd/10", "--listen", "127.0.0.1:0")
	cmd.Dir = folder
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, left, config} // 3 and following
	r := program.Start(t, cmd)
	waitFor(t, filepath.Join(folder, "found"))
	found, err := os.ReadFile(filepath.Join(folder, "found"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(found), " 1 -> "); n != 2 { // the outputs of both
		t.Errorf("the command saw %d processes, want 2:\n%s", n, found)
	}
	for what, file := range map[string]*os.File{"pipe": left, "configuration": config} {
		name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Fd())) // pipe:[its number]
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(found), name) {
			t.Errorf("the %s %s reached the command or the helper process:\n%s", what, name, found)
		}
	}
	r.Drain(t, 30*time.Second)
}
