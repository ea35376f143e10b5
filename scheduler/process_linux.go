package scheduler

import (
	"os"
	"strconv"
	"strings"
)

// bootID names this boot of the kernel: pids of another one mean nothing.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// processStart is when a process started, in clock ticks since boot; 0 = unknown. Together with
// the pid it names a process for good, since pids are used again.
func processStart(pid int) int64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field, the command's name, may hold blanks and brackets.
	rest := stat[strings.LastIndexByte(string(stat), ')')+1:]
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return 0
	}
	start, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return start
}
