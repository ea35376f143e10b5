package warden

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// entry is a process in /proc.
type entry struct{ pid, parent, group, session int }

// table has the running processes of the machine, as /proc showed them one after the other: a process that is
// started meanwhile may be missing.
type table map[int]entry

func listProcesses() table {
	all := table{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as many as could be read
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// readProcess is false for a process that is gone, or a zombie.
func readProcess(pid int) (entry, bool) {
	fields, err := process.Stat(pid)
	if err != nil || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return entry{}, false
	}
	p := entry{pid: pid}
	for i, field := range []*int{&p.parent, &p.group, &p.session} {
		if *field, err = strconv.Atoi(string(fields[i+1])); err != nil {
			return entry{}, false
		}
	}
	return p, true
}

// below returns the processes that descend from the given one, each with the child of it that it
// descends from.
func (all table) below(ancestor int) map[int]int {
	children := map[int][]int{}
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	branch := map[int]int{}
	var walk func(pid, top int)
	walk = func(pid, top int) {
		if pid == ancestor || branch[pid] != 0 { // a number may be used again while processes are listed
			return
		}
		branch[pid] = top
		for _, child := range children[pid] {
			walk(child, top)
		}
	}
	for _, child := range children[ancestor] {
		walk(child, child)
	}
	return branch
}

// marked reports whether a process was started with all of these variables.
func marked(pid int, marks [][]byte) bool {
	if len(marks) == 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	env := bytes.Split(text, []byte{0})
	return !slices.ContainsFunc(marks, func(mark []byte) bool {
		return !slices.ContainsFunc(env, func(entry []byte) bool { return bytes.Equal(entry, mark) })
	})
}
