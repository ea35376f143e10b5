package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// known is Self once all of it could be read: a process that runs out of descriptors keeps its identity.
var known atomic.Pointer[ID]

// Self is this process. Containers of one machine have their own pids, so they belong to different boots.
func Self() ID {
	if id := known.Load(); id != nil {
		return *id
	}
	id := self()
	if id.Boot != "" && id.Start > 0 {
		known.Store(&id)
	}
	return id
}

func self() ID {
	id := ID{PID: os.Getpid()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	numbering, err2 := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err == nil && err2 == nil {
		id.Boot = strings.TrimSpace(string(boot)) + " " + numbering
	}
	if _, start, err := stat(id.PID); err == nil {
		id.Start = start
	}
	return id
}

// Gone is true only if the process has certainly ended on this boot of this machine, and its warden too: then
// its commands have ended.
func (id ID) Gone() bool {
	if id.PID <= 0 || id.Start <= 0 || id.Boot == "" || id.Boot != Self().Boot {
		return false
	}
	state, start, err := stat(id.PID)
	gone := err == nil && (state == 'Z' || state == 'X' || start != id.Start)
	if err != nil {
		gone = errors.Is(unix.Kill(id.PID, 0), unix.ESRCH) // /proc may hide processes of other users
	}
	return gone && !id.hasWarden()
}

// hasWarden reports whether a warden of the process runs, or may run, if this process has no descriptors left to
// look.
func (id ID) hasWarden() bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	want := Warden + "\x00of\x00" + id.Tag() + "\x00"
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && string(line) == want || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			return true
		}
	}
	return len(files) == 0 // this process is always there
}

// stat reads the state and the start time of a process.
func stat(pid int) (state byte, start int64, err error) {
	fields, err := Stat(pid)
	if err != nil {
		return 0, 0, err
	}
	start, err = strconv.ParseInt(string(fields[19]), 10, 64)
	return fields[0][0], start, err
}

// Stat returns the fields of a process in /proc/PID/stat behind the first two: state, parent, group, session, …, and
// as the 20th its start.
func Stat(pid int) (fields [][]byte, err error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	// The second field, the command's name, may hold blanks and brackets.
	fields = bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return nil, errors.New("short stat line")
	}
	return fields, nil
}
