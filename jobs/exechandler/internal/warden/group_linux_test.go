package warden

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// testGroup makes a control group; "" where this process may make none, which the log says.
func testGroup(t *testing.T) (path string, folder int) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" {
			continue
		}
		if path, err = os.MkdirTemp(fields[1], "lockstep-test-"); err != nil {
			break
		}
		folder, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			g := group(folder)
			g.kill()
			await.Until(t, "the group is empty", g.empty)
			_ = unix.Close(folder)
			if err := unix.Rmdir(path); err != nil {
				t.Error(err)
			}
		})
		t.Logf("tried with %s", path)
		return path, folder
	}
	t.Logf("not tried: this process can make no control group (%v)", err)
	return "", -1
}

// beginIn starts a command in a control group.
func beginIn(t *testing.T, k *keeper, id uint64, folder int, c Command, argv ...string) {
	t.Helper()
	out, err := unix.Dup(k.null)
	if err != nil {
		t.Fatal(err)
	}
	own, err := unix.Dup(folder)
	if err != nil {
		t.Fatal(err)
	}
	c.Program, c.Group = argv[0], true
	for _, a := range argv {
		c.Argv = append(c.Argv, []byte(a))
	}
	k.handle(order{ID: id, Start: &c}, []int{out, own})
}

// A process that has left group, session, parent and environment is still in the control group: it gets SIGTERM, and the attempt
// has not ended before it has.
func TestGroupHasWhatLeftEverythingElse(t *testing.T) {
	path, folder := testGroup(t)
	if path == "" {
		return
	}
	for _, ignores := range []bool{false, true} {
		k, c, reports := testKeeper(t)
		file := filepath.Join(t.TempDir(), "stray")
		end := "exit"
		if ignores {
			end = ":"
		}
		// Its parent ends at once, and it is none of this process's children.
		stray := `trap "echo term >>'` + file + `'; ` + end + `" TERM; echo $$ >>'` + file + `'; while :; do sleep 0.02; done`
		beginIn(t, k, 1, folder, Command{Grace: time.Second}, "/bin/sh", "-c",
			`(env -i PATH="$PATH" setsid sh -c "$0" >/dev/null 2>&1 &); while [ ! -s '`+file+`' ]; do sleep 0.02; done; trap exit TERM; echo ready >>'`+file+`'; while :; do sleep 0.02; done`, stray)
		said := func() string { text, _ := os.ReadFile(file); return string(text) }
		await.Until(t, "the stray lives", func() bool { return strings.HasSuffix(said(), "ready\n") })
		pid, err := strconv.Atoi(strings.Fields(said())[0])
		if err != nil || len(group(folder).processes()) < 2 {
			t.Fatalf("%q, %v", said(), group(folder).processes())
		}
		k.handle(order{ID: 1, KillBy: &boottime.Stamp{Awake: true, At: c.clock(true) + 300*time.Millisecond}}, nil)
		await.Until(t, "the stray gets SIGTERM", func() bool { return strings.HasSuffix(said(), "term\n") })
		lookUntil(t, k)
		if _, alive := readProcess(pid); alive || reports[1].Why != Ordered {
			t.Errorf("ignores SIGTERM: %t; the stray %d is there: %t, %+v", ignores, pid, alive, reports[1])
		}
	}
}

// A command is in its group, whether it was started there or entered it.
func TestCommandsAreInTheirGroup(t *testing.T) {
	path, folder := testGroup(t)
	if path == "" {
		return
	}
	for _, enter := range []bool{false, true} {
		k, _, reports := testKeeper(t)
		file := filepath.Join(t.TempDir(), "group")
		beginIn(t, k, 1, folder, Command{Enter: enter}, "/bin/sh", "-c", `cat /proc/self/cgroup >"$0"`, file)
		lookUntil(t, k)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "/"+filepath.Base(path)+"\n") || unix.WaitStatus(reports[1].Status) != 0 {
			t.Errorf("enters: %t: %q, %v, %+v", enter, text, err, reports[1])
		}
		beginIn(t, k, 2, folder, Command{Enter: enter}, "/none")
		lookUntil(t, k)
		if r := reports[2]; r.Errno != int(unix.ENOENT) || r.Ended != enter {
			t.Errorf("enters: %t, no program: %+v", enter, r)
		}
	}
}

// The folder of a group is not kept open, whether the start works or not, nor a pipe.
func TestNothingIsKeptOpen(t *testing.T) {
	path, folder := testGroup(t)
	k, _, reports := testKeeper(t)
	open := func() map[string]bool { // but for the folder itself
		files := map[string]bool{}
		all, _ := os.ReadDir("/proc/self/fd")
		for _, fd := range all {
			if file, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
				files[fd.Name()+" "+file] = true
			}
		}
		return files
	}
	before := open()
	for id := uint64(1); id <= 6; id += 2 {
		program := []string{"/bin/true", "/none", "/bin/true"}[id/2]
		if path != "" {
			beginIn(t, k, id, folder, Command{Nice: 1, Enter: id == 5}, program)
		}
		begin(t, k, id+1, Command{Space: 1 << 34, Nice: 2}, program)
		lookUntil(t, k)
	}
	for file := range open() { // what an earlier test has left may be closed meanwhile
		if !before[file] {
			t.Errorf("%s is open, and was not", file)
		}
	}
	if r := reports[4]; r.Errno != int(unix.ENOENT) || !r.Ended {
		t.Errorf("a gate that has found no program: %+v", r)
	}
	if r := reports[3]; path != "" && (r.Errno != int(unix.ENOENT) || r.Ended) {
		t.Errorf("no program: %+v", r)
	}
}
