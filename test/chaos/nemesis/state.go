//go:build linux

package nemesis

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// state is the state of a process as the kernel shows it: "R", "S", "T" …; empty: it is gone.
func state(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may hold blanks
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

func stopped(pids ...int) bool {
	for _, pid := range pids {
		if state(pid) != "T" {
			return false
		}
	}
	return len(pids) > 0
}

// commands are the processes that run a job's command, or a client's, by the replica that they name: those with
// a file on their command line.
func commands(file string) map[string][]int {
	all := map[string][]int{}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err != nil || !bytes.Contains(text, []byte("-file\x00"+file+"\x00")) {
			continue // it has ended, or is another
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(line), "environ")) // empty if it has ended
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if id, is := bytes.CutPrefix(v, []byte("LOCKSTEP_REPLICA=")); is {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
				all[string(id)] = append(all[string(id)], pid)
			}
		}
	}
	return all
}

// writing reports whether a process holds the one write lock of an SQLite file in WAL mode.
func writing(pid int, file string) bool {
	var stat syscall.Stat_t
	if syscall.Stat(file+"-shm", &stat) != nil {
		return false
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false
	}
	const writeLock = 120 // the byte of that lock
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line) // 1: POSIX ADVISORY WRITE pid device:inode from to
		if len(f) < 8 || f[3] != "WRITE" || f[4] != strconv.Itoa(pid) || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(stat.Ino, 10)) {
			continue
		}
		from, _ := strconv.Atoi(f[6])
		to, err := strconv.Atoi(f[7])
		if from <= writeLock && (err != nil || writeLock <= to) { // "EOF" is no number
			return true
		}
	}
	return false
}
