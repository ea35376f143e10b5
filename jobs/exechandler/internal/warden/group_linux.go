package warden

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// group is the control group of a charge, an open folder. Its files are read and written in it, whatever is at its path.
type group int

// noGroup is that of a charge without one: it is empty.
const noGroup group = -1

// kill kills all its processes, and those in groups below. Kernels before 5.14 cannot.
func (g group) kill() {
	if f := g.open("cgroup.kill", unix.O_WRONLY); f >= 0 {
		_, _ = unix.Write(f, []byte("1"))
		_ = unix.Close(f)
	}
}

// enter has this process enter it.
func (g group) enter() error {
	f, err := unix.Openat(int(g), "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(f, []byte("0"))
	_ = unix.Close(f)
	return err
}

// empty reports whether no process is in it or below.
func (g group) empty() bool { return !bytes.Contains(g.read("cgroup.events"), []byte("populated 1")) }

// processes are those in it, but not below.
func (g group) processes() (pids []int) {
	for line := range strings.Lines(string(g.read("cgroup.procs"))) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 { // 0: not in this pid namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

func (g group) open(name string, mode int) int {
	if g == noGroup {
		return -1
	}
	f, err := unix.Openat(int(g), name, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return f
}

func (g group) read(name string) (text []byte) {
	f := g.open(name, unix.O_RDONLY)
	if f < 0 {
		return nil
	}
	defer unix.Close(f)
	part := make([]byte, 4<<10)
	for {
		n, err := unix.Read(f, part)
		if n <= 0 || err != nil {
			return text
		}
		text = append(text, part[:n]...)
	}
}
