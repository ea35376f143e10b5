package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// inside in the environment makes this test binary a process that is in a group of its own: its value is a name of insides.
const inside = "CGROUP_TEST_INSIDE"

// insides return what their parent tests look at.
var insides = map[string]func() any{
	"enable":  func() any { return enableInside() },
	"crowded": func() any { return crowdedInside() },
}

func TestMain(m *testing.M) {
	if name := os.Getenv(inside); name != "" {
		answer, _ := json.Marshal(insides[name]())
		fmt.Println(string(answer))
		return
	}
	os.Exit(m.Run())
}

func TestLocate(t *testing.T) {
	const plain = "28 24 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for what, c := range map[string]struct{ mounts, own, top, folder string }{
		"a service":         {plain, "0::/system.slice/x.service\n", "/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/x.service"},
		"a container":       {plain, "0::/\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"beside v1":         {hybrid, "4:memory:/a\n0::/b\n", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/b"},
		"a part is mounted": {"1 1 0:25 /a /mnt rw - cgroup2 cgroup2 rw\n", "0::/a/b\n", "/mnt", "/mnt/b"},
		"another part":      {"1 1 0:25 /a /mnt rw - cgroup2 cgroup2 rw\n", "0::/ab\n", "", ""},
		"blanks":            {"1 1 0:25 /a\\040b /m\\040n rw - cgroup2 cgroup2 rw\n", "0::/a b/c\n", "/m n", "/m n/c"},
		"outside":           {plain, "0::/../x\n", "", ""},
		"v1 alone":          {"30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n", "", ""},
		"not mounted":       {"", "0::/\n", "", ""},
	} {
		top, folder, err := locate(c.mounts, c.own)
		if top != c.top || folder != c.folder || (err == nil) != (c.folder != "") || err != nil && !errors.Is(err, ErrNone) {
			t.Errorf("%s: %q, %q, %v", what, top, folder, err)
		}
	}
}

// like makes a folder that has the files of a group.
func like(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Where systemd rules, a folder that can be written is not enough.
func TestUsable(t *testing.T) {
	dir := like(t, map[string]string{"cgroup.procs": "", "cgroup.subtree_control": ""})
	defer func(was string) { systemd = was }(systemd)
	systemd = filepath.Join(dir, "none")
	if err := usable(dir, false); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	systemd = t.TempDir()
	if err := usable(dir, true); err != nil {
		t.Errorf("the uppermost one: %v", err)
	}
	own := ownFrom(dir) // of a user who is not root, if the folder above is of another
	if err := usable(dir, false); !own && (!errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "set Delegate=yes")) {
		t.Errorf("not delegated: %v", err)
	}
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err == nil {
		if err := usable(dir, false); err != nil {
			t.Errorf("delegated: %v", err)
		}
	} else {
		t.Logf("this file system has no attributes, so a mark was not tried: %v", err)
	}
	if err := usable(t.TempDir(), true); !errors.Is(err, ErrNone) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no group: %v", err)
	}
}

// What is written, file by file.
func TestLimitsAreWritten(t *testing.T) {
	both := []string{"cpu", "memory"}
	for _, c := range []struct {
		limits      Limits
		controllers []string
		want        map[string]string
	}{
		{Limits{CPU: 0.5}, both, map[string]string{"cpu.max": "50000 100000"}},
		{Limits{CPU: 0.01}, both, map[string]string{"cpu.max": "1000 100000"}},
		{Limits{CPU: 1024}, both, map[string]string{"cpu.max": "102400000 100000"}},
		{Limits{CPU: 0.333333}, both, map[string]string{"cpu.max": "33333 100000"}},
		{Limits{Memory: 512 << 20, Nice: 10}, both, map[string]string{
			"memory.max": "536870912", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.weight.nice": "10",
		}},
		{Limits{CPU: 2, Memory: 4 << 20, Nice: 1}, []string{"memory"}, map[string]string{"memory.max": "4194304", "memory.swap.max": "0", "memory.oom.group": "1"}},
		{Limits{CPU: 2, Memory: 4 << 20}, []string{"cpu"}, map[string]string{"cpu.max": "200000 100000"}},
	} {
		all := map[string]string{"cpu.max": "", "cpu.weight.nice": "", "memory.max": "", "memory.swap.max": "", "memory.oom.group": ""}
		dir := like(t, all)
		if err := set(dir, c.limits.values(c.controllers)); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name := range all {
			if text, _ := os.ReadFile(filepath.Join(dir, name)); len(text) > 0 {
				got[name] = string(text)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v with %v (−want +got):\n%s", c.limits, c.controllers, diff)
		}
	}
	// A kernel without swap has no limit of it; one without any of memory does not do.
	dir := like(t, map[string]string{"memory.max": "", "memory.oom.group": ""})
	if err := set(dir, Limits{Memory: 1 << 30}.values(both)); err != nil {
		t.Errorf("without swap: %v", err)
	}
	if err := set(dir, Limits{CPU: 1}.values(both)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a quota: %v", err)
	}
}

func TestUsed(t *testing.T) {
	g := &Group{path: like(t, map[string]string{
		"cpu.stat": "usage_usec 1800000\nuser_usec 9\n", "memory.peak": "325058560\n", "memory.events": "low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\noom_group_kill 1\n",
	})}
	if got, want := g.Used(), (Used{CPU: 1800 * time.Millisecond, Memory: 310 << 20, Killed: true}); got != want {
		t.Errorf("%+v", got)
	}
	g = &Group{path: like(t, map[string]string{"memory.events": "max 31\noom 1\noom_kill 0\n"})}
	if got := g.Used(); got != (Used{}) {
		t.Errorf("%+v", got)
	}
}
