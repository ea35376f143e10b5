package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNone: this process has no place for groups of its own. The text says why.
var ErrNone = errors.New("no control group of its own")

func none(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNone, fmt.Errorf(format, args...))
}

// Find returns the folder below which this process may make groups: its own group or the one above, as with DelegateSubgroup= of
// systemd. It changes nothing. The error matches ErrNone.
//
// A folder that can be written is not enough where systemd rules: what it has not delegated it may change at any time. So the group is
//
//   - marked as delegated by systemd, or
//   - the first one that belongs to this process's user, not root, or
//   - the uppermost one that this process sees, as in a container, or
//   - any, where there is no systemd.
func Find() (folder string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", none("%w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", none("%w", err)
	}
	top, folder, err := locate(string(mounts), string(own))
	if err != nil {
		return "", err
	}
	err = usable(folder, folder == top)
	if err != nil && folder != top {
		if above := filepath.Dir(folder); usable(above, above == top) == nil {
			return above, nil
		}
	}
	return folder, err
}

// locate returns the folder of this process's group, and that of the uppermost group that is mounted with it; from the contents of
// /proc/self/mountinfo and /proc/self/cgroup.
func locate(mounts, own string) (top, folder string, err error) {
	var path string
	for line := range strings.Lines(own) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	if path == "" {
		return "", "", none("this system has no cgroup v2")
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); kind != "cgroup2" || len(fields) < 5 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		if rest, below := strings.CutPrefix(path, strings.TrimSuffix(root, "/")); below && (rest == "" || rest[0] == '/') && !strings.Contains(rest, "/..") {
			return point, filepath.Join(point, rest), nil
		}
	}
	return "", "", none("cgroup v2 is not mounted here, or not with the group of this process")
}

// unescape undoes what the kernel does to blanks in paths.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// systemd is the folder that there is where systemd rules.
var systemd = "/run/systemd/system"

// usable says why this process may not make groups in folder; top: it is the uppermost one that it sees.
func usable(folder string, top bool) error {
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		file := filepath.Join(folder, name)
		if err := unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS); err != nil {
			if errors.Is(err, unix.EROFS) {
				return none("%s is mounted read-only", folder)
			}
			return none("%s cannot be written: %w; set Delegate=yes in the unit of the replica", file, err)
		}
	}
	if _, err := os.Stat(systemd); err != nil || top || marked(folder) || ownFrom(folder) {
		return nil
	}
	return none("systemd has not delegated %s; set Delegate=yes in the unit of the replica", folder)
}

// marked reports whether systemd has marked the group as delegated.
func marked(folder string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(folder, name, value); err == nil && bytes.Equal(value[:n], []byte("1")) {
			return true
		}
	}
	return false
}

// ownFrom reports whether the folder belongs to this process's user, who is not root, and the one above to another.
func ownFrom(folder string) bool {
	owner := func(path string) int {
		info, err := os.Stat(path)
		if err != nil {
			return -1
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		return int(stat.Uid)
	}
	own := os.Geteuid()
	return own != 0 && owner(folder) == own && owner(filepath.Dir(folder)) != own
}
