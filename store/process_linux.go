package store

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// processGone is true only when the process with this pid that started then, in clock ticks since
// boot, certainly runs no more.
func processGone(pid int, start int64) bool {
	if pid <= 0 || start <= 0 {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(unix.Kill(pid, 0), unix.ESRCH) // /proc may hide others' processes
	}
	// The second field, the command's name, may hold blanks and brackets; start is the 22nd.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return false
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return true
	}
	now, err := strconv.ParseInt(string(fields[19]), 10, 64)
	return err == nil && now != start
}
