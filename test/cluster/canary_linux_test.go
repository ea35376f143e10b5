package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A command runs as the replica's user, and /proc shows a user the environments of all its processes. The replica's,
// with its secrets, is not readable, and its parent, the warden, has an empty one.
func TestNoCommandReadsTheReplicasEnvironment(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		servers.LeaveOut(t, "needs to be root, to start a replica as a user who is not")
	}
	const user = 4321
	for _, c := range []struct {
		environ string
		finds   bool
	}{{"A=b", false}, {"LOCKSTEP_DUMPABLE=true", true}} { // that one shows that the command finds what is there
		folder, err := os.MkdirTemp("/tmp", "lockstep-canary-") // t.TempDir is closed to other users
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
		binary, config := filepath.Join(folder, "scheduler"), filepath.Join(folder, "lockstep.yaml")
		carry(t, program.Build(t, scheduler), binary)
		canary := "hunter" + strconv.FormatInt(time.Now().UnixNano(), 36)
		text := fmt.Sprintf(`version: 1
jobs:
  look:
    schedule: "* * * * * *"
    working_dir: %s
    shell: |
      grep -l --text "^SECRET=hunter" --null-data /proc/[0-9]*/environ >found.tmp 2>/dev/null
      echo "parent /proc/$PPID/environ has $(wc -c <"/proc/$PPID/environ") bytes" >>found.tmp
      mv found.tmp found
`, folder)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(folder, user, user); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, "serve", "-c", config, "--listen", "127.0.0.1:0")
		cmd.Dir = folder
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SECRET=" + canary, c.environ}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		r := program.Start(t, cmd)
		waitFor(t, filepath.Join(folder, "found"))
		found, err := os.ReadFile(filepath.Join(folder, "found"))
		if err != nil {
			t.Fatal(err)
		}
		own := fmt.Sprintf("/proc/%d/environ\n", r.Cmd.Process.Pid)
		if !strings.Contains(string(found), " has 0 bytes\n") {
			t.Errorf("with %s: the helper process has an environment: %s", c.environ, found)
		}
		before, _, _ := strings.Cut(string(found), "parent ")
		if want := map[bool]string{true: own}[c.finds]; before != want {
			t.Errorf("with %s: the secret is in %q, want %q; the replica is %d", c.environ, before, want, r.Cmd.Process.Pid)
		}
		r.Drain(t, 30*time.Second)
	}
}

// carry copies a program to where other users can run it.
func carry(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err2 := out.Close(); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
}
