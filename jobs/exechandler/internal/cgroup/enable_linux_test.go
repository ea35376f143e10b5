package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// hierarchy is a place in cgroup v2 of this machine where a test may make groups, and controllers that groups there can have.
func hierarchy(t *testing.T) (folder string, controllers []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		top := unescape(strings.Fields(before)[4])
		if err := usable(top, true); err != nil {
			t.Logf("control groups are not tried for real: %v", err)
			return "", nil
		}
		there, _ := (&Groups{folder: top}).words("cgroup.controllers")
		on, _ := (&Groups{folder: top}).words("cgroup.subtree_control")
		for _, want := range [][]string{{"cpu", "memory"}, {"hugetlb"}, {"pids"}, {"io"}} {
			if slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(there, c) }) {
				continue
			}
			for _, c := range want {
				if !slices.Contains(on, c) {
					if err := write(top, "cgroup.subtree_control", "+"+c); err != nil {
						t.Logf("control groups are not tried for real: %v", err)
						return "", nil
					}
					t.Cleanup(func() { _ = write(top, "cgroup.subtree_control", "-"+c) })
				}
			}
			controllers = want
			break
		}
		folder, err = os.MkdirTemp(top, "lockstep-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := removeAll(folder); err != nil {
				t.Errorf("something is left: %v", err)
			}
		})
		t.Logf("control groups are tried for real in %s, with controllers %v", top, controllers)
		return folder, controllers
	}
	t.Log("control groups are not tried for real: cgroup v2 is not mounted")
	return "", nil
}

// in runs an inside in the group of a folder, and decodes its answer.
func in(t *testing.T, folder, name string, answer any) {
	t.Helper()
	dir, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), inside+"="+name, "CGROUP_TEST_FOLDER="+folder)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		t.Fatalf("%s: %v, %q", name, err, out)
	}
}

// enabled is what enableInside has found.
type enabled struct {
	Err, Found   string
	Controllers  []string
	Group        string   // of this process afterwards
	Limit        string   // of the first group that was made
	Held, Left   []string // groups while one had a process, and after it ended
	Gone, Killed bool
}

// enableInside makes place for groups, starts a process in one and kills it, with another one that has left everything but its group.
func enableInside() (e enabled) {
	want := strings.Fields(os.Getenv("CGROUP_TEST_CONTROLLERS"))
	folder, err := Find()
	if err != nil {
		return enabled{Err: err.Error()}
	}
	e.Found = folder
	stale, err := os.MkdirTemp(folder, attemptPrefix) // of a process that is gone
	if err != nil {
		return enabled{Err: err.Error()}
	}
	_, others, err := makeLocked(folder, attemptPrefix) // of one that is not
	if err != nil {
		return enabled{Err: err.Error()}
	}
	g, err := Enable(folder, want)
	if err != nil {
		return enabled{Err: err.Error()}
	}
	e.Controllers = g.Controllers
	_, there := os.Stat(stale)
	_, held := os.Stat(others.Name())
	e.Gone = errors.Is(there, fs.ErrNotExist) && held == nil
	_ = syscall.Rmdir(others.Name())
	own, _ := os.ReadFile("/proc/self/cgroup")
	e.Group = filepath.Base(strings.TrimSpace(string(own)))

	group, err := g.Make(Limits{CPU: 0.5, Memory: 64 << 20})
	if err != nil {
		return enabled{Err: err.Error()}
	}
	limit, _ := os.ReadFile(filepath.Join(group.path, "cpu.max"))
	memory, _ := os.ReadFile(filepath.Join(group.path, "memory.max"))
	e.Limit = strings.TrimSpace(string(limit)) + " " + strings.TrimSpace(string(memory))
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Folder.Fd())}
	if err := cmd.Start(); err != nil {
		return enabled{Err: err.Error()}
	}
	group.Remove()
	e.Held = attempts(folder)
	(&Group{path: group.path}).Kill()
	e.Killed = cmd.Wait() != nil
	next, err := g.Make(Limits{})
	if err != nil {
		return enabled{Err: err.Error()}
	}
	next.Remove()
	e.Left = attempts(folder)
	return e
}

func attempts(folder string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(folder, attemptPrefix+"*"))
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}

// A process moves to a group of its own, so that groups beside it can have controllers; it removes what nobody holds, and a group is removed
// once its processes are gone.
func TestEnable(t *testing.T) {
	folder, controllers := hierarchy(t)
	if folder == "" {
		return
	}
	t.Setenv("CGROUP_TEST_CONTROLLERS", strings.Join(controllers, " "))
	var e enabled
	in(t, folder, "enable", &e)
	if e.Err != "" || e.Found != folder || !slices.Equal(e.Controllers, controllers) || !strings.HasPrefix(e.Group, replicaPrefix) ||
		!e.Gone || !e.Killed || len(e.Held) != 1 || len(e.Left) != 0 {
		t.Errorf("%+v", e)
	}
	if slices.Contains(controllers, "memory") && e.Limit != "50000 100000 67108864" {
		t.Errorf("its limits are %s", e.Limit)
	}
	// Its own group is empty now, and goes with the next one that comes, which cannot be in a group whose groups have controllers.
	for _, c := range controllers {
		if err := write(folder, "cgroup.subtree_control", "-"+c); err != nil {
			t.Fatal(err)
		}
	}
	in(t, folder, "enable", &e)
	if own, _ := filepath.Glob(filepath.Join(folder, replicaPrefix+"*")); len(own) != 1 {
		t.Errorf("left are %q", own)
	}
}

// crowded is what crowdedInside has found.
type crowded struct{ Err, Before, After string }

// crowdedInside makes place for groups beside another process.
func crowdedInside() (c crowded) {
	own := func() string { text, _ := os.ReadFile("/proc/self/cgroup"); return string(text) }
	c.Before = own()
	folder, err := Find()
	if err == nil {
		_, err = Enable(folder, strings.Fields(os.Getenv("CGROUP_TEST_CONTROLLERS")))
	}
	if err != nil {
		c.Err = err.Error()
	}
	c.After = own()
	return c
}

// Where other processes are in the group too, nothing has changed afterwards.
func TestEnableBesideOthers(t *testing.T) {
	folder, controllers := hierarchy(t)
	if folder == "" || controllers == nil {
		return
	}
	t.Setenv("CGROUP_TEST_CONTROLLERS", strings.Join(controllers, " "))
	other := exec.Command("/bin/sleep", "300")
	dir, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	other.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
		await.Until(t, "the group is empty", func() bool { text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs")); return len(text) == 0 })
	}()
	var c crowded
	in(t, folder, "crowded", &c)
	if !strings.Contains(c.Err, fmt.Sprintf("other processes are in %s (%d)", folder, other.Process.Pid)) || c.Before != c.After {
		t.Errorf("%+v", c)
	}
	if own, _ := filepath.Glob(filepath.Join(folder, "lockstep-*")); len(own) != 0 {
		t.Errorf("left are %q", own)
	}
}

// Without the controllers there is no place, and the text says so.
func TestEnableWithoutControllers(t *testing.T) {
	dir := like(t, map[string]string{"cgroup.controllers": "hugetlb pids\n", "cgroup.subtree_control": ""})
	if _, err := Enable(dir, []string{"cpu", "memory"}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "has no controllers cpu and memory") {
		t.Errorf("%v", err)
	}
}
