//go:build unix

package program

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Alive reports whether a process still runs. A zombie does not, nor one that the kernel is about to make so: the pipes of that
// one are closed already, and it runs nothing more.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !hasProc()
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	const exiting = 0x4 // of the flags, PF_EXITING
	fields := strings.Fields(rest)
	flags, err := strconv.Atoi(fields[6])
	return fields[0] != "Z" && (err != nil || flags&exiting == 0)
}

func hasProc() bool { _, err := os.Stat("/proc/self/stat"); return err == nil }
