//go:build linux

package arena

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descendants are the processes below pid, from the kernel's table.
func descendants(pid int) (below []int) {
	children := map[int][]int{}
	for child, parent := range parents() {
		children[parent] = append(children[parent], child)
	}
	for todo := children[pid]; len(todo) > 0; todo = todo[1:] {
		below = append(below, todo[0])
		todo = append(todo, children[todo[0]]...)
	}
	return below
}

// parents is the parent of each process of this machine.
func parents() map[int]int {
	all := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" {
			all[pid], _ = strconv.Atoi(f[1])
		}
	}
	return all
}

// running are the processes of this machine that run a program.
func running(program string) (pids []int) {
	for pid := range parents() {
		if runs(pid, program) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether a process runs a program.
func runs(pid int, program string) bool {
	exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return exe == program
}

// Descriptors is how many files a process has open.
func Descriptors(pid int) int {
	entries, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd") // it may be gone
	return len(entries)
}

// commands are the processes of commands of this arena: other runs may use the same programs.
func (a *Arena) commands() (pids []int) {
	for program, file := range map[string]string{a.command: a.effects, a.locked: a.lockedFile()} {
		for _, pid := range running(program) {
			if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); bytes.Contains(line, []byte(file)) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
