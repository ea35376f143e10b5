package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	replicaPrefix = "lockstep-replica-"
	attemptPrefix = "lockstep-attempt-"
)

// Groups makes groups in a folder.
type Groups struct {
	folder      string
	Controllers []string // that groups have: cpu, memory or both
	Clone       bool     // a process can be started in a group; else it has to enter it: filters of system calls that guard namespaces refuse clone3

	own *os.File // the group that this process has moved to, locked; nil: it has not

	mu   sync.Mutex
	left []string // groups that had processes when they were to be removed
}

// Available are those of the controllers that groups below the folder can have. The error matches ErrNone.
func Available(folder string, controllers []string) (has []string, err error) {
	there, err := (&Groups{folder: folder}).words("cgroup.controllers")
	if err != nil {
		return nil, none("%w", err)
	}
	for _, c := range controllers {
		if slices.Contains(there, c) {
			has = append(has, c)
		}
	}
	if len(has) == 0 {
		return nil, none("%s has no controllers %s: they are not delegated, or belong to cgroup v1", folder, strings.Join(controllers, " and "))
	}
	return has, nil
}

// Enable has groups below the folder get as many of the controllers as there are, and removes groups that processes which are gone
// have left there. If the folder is the group of this process, it moves to one below, and with it its warden: pids are other processes
// to move. If that is not enough, it moves back. The error matches ErrNone.
func Enable(folder string, controllers []string, pids ...int) (*Groups, error) {
	has, err := Available(folder, controllers)
	if err != nil {
		return nil, err
	}
	g := &Groups{folder: folder, Controllers: has}
	sweep(folder)
	on, err := g.words("cgroup.subtree_control")
	if err != nil {
		return nil, none("%w", err)
	}
	var off []string
	for _, c := range has {
		if !slices.Contains(on, c) {
			off = append(off, "+"+c)
		}
	}
	if len(off) > 0 {
		if err := g.turnOn(strings.Join(off, " "), append(pids, os.Getpid())); err != nil {
			return nil, err
		}
	}
	if err := g.try(); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Groups) words(name string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(g.folder, name))
	return strings.Fields(string(text)), err
}

// turnOn turns controllers on, for which processes may have to move.
func (g *Groups) turnOn(what string, pids []int) error {
	const file = "cgroup.subtree_control"
	err := write(g.folder, file, what)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EBUSY) {
		return none("%w", err)
	}
	path, own, err := makeLocked(g.folder, replicaPrefix)
	if err != nil {
		return none("%w", err)
	}
	if err = move(path, pids); err == nil {
		err = write(g.folder, file, what)
	}
	if err == nil {
		g.own = own
		return nil
	}
	if others, _ := g.words("cgroup.procs"); errors.Is(err, unix.EBUSY) && len(others) > 0 {
		err = fmt.Errorf("other processes are in %s (%s); a unit of systemd with Delegate=yes has one for the replica alone", g.folder, strings.Join(others[:min(len(others), 5)], ", "))
	}
	_ = move(g.folder, pids)
	_ = syscall.Rmdir(path)
	_ = own.Close()
	return none("%w", err)
}

// move moves processes to a group. Those that are gone do not matter.
func move(folder string, pids []int) error {
	for _, pid := range pids {
		if err := write(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// try makes a group with limits, and starts a program in it that does not exist.
func (g *Groups) try() error {
	group, err := g.Make(Limits{CPU: 1, Memory: 64 << 20})
	if err != nil {
		return none("%w", err)
	}
	defer group.Remove()
	_, err = syscall.ForkExec(filepath.Join(g.folder, "none", "none"), []string{"none"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Folder.Fd())},
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		g.Clone = true
	case !errors.Is(err, unix.ENOSYS):
		return none("a process cannot be started in a group below %s: %w", g.folder, err)
	}
	return nil
}

// sweep removes groups of processes that are gone.
func sweep(folder string) {
	entries, _ := os.ReadDir(folder) // those that were read before an error, too
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), replicaPrefix) && !strings.HasPrefix(e.Name(), attemptPrefix) {
			continue
		}
		path := filepath.Join(folder, e.Name())
		if locked, err := lock(path); err == nil {
			_ = removeAll(path)
			_ = locked.Close()
		}
	}
}

// makeLocked makes a group and locks it.
func makeLocked(folder, prefix string) (path string, locked *os.File, err error) {
	for range 3 { // what is not yet locked may be swept by another process
		if path, err = os.MkdirTemp(folder, prefix); err != nil {
			return "", nil, err
		}
		if locked, err = lock(path); err != nil {
			_ = syscall.Rmdir(path)
			continue
		}
		at, gone := os.Lstat(path)
		open, unknown := locked.Stat()
		if gone == nil && unknown == nil && os.SameFile(at, open) {
			return path, locked, nil
		}
		_ = locked.Close()
		err = fs.ErrNotExist
	}
	return "", nil, err
}

// lock opens and locks the folder of a group that nobody has locked.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, nil
}

// removeAll removes a group and those below, unless processes are in one of them.
func removeAll(path string) error {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			_ = removeAll(filepath.Join(path, e.Name()))
		}
	}
	err := syscall.Rmdir(path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// write writes a value to a file of a group, in one call.
func write(folder, name, value string) error {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
