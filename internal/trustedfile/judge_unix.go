//go:build unix

package trustedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// openFlags do not wait for the other end of a FIFO, and take no terminal.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// modes says whether files have owners and modes.
const modes = true

// judge refuses a file that other users may change.
func (r Rule) judge(path string, f *os.File, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &Error{Path: path, Problem: "its owner is unknown"}
	}
	private := !r.Secret && isPrivate(stat)
	remedy := "chmod go-w " + path
	if r.Secret {
		remedy = "chmod 600 " + path
	}
	switch {
	case mode&0o002 != 0, mode&0o020 != 0 && !private:
		return &Error{Path: path, Problem: fmt.Sprintf("can be written by others (mode %04o)", mode), Remedy: remedy}
	case mode&0o020 != 0 && hasACL(f):
		return &Error{Path: path, Problem: fmt.Sprintf("can be written by others (mode %04o, and it has an ACL)", mode), Remedy: remedy}
	case stat.Uid == 0, int(stat.Uid) == os.Geteuid(), mountedReadOnly(f):
		return nil
	}
	return &Error{
		Path: path, Problem: fmt.Sprintf("is owned by user %d, who can change it, and neither by root nor by this process's user %d", stat.Uid, os.Geteuid()),
		Remedy: fmt.Sprintf("chown %d %s; in a container, mount it read-only", os.Geteuid(), path),
	}
}

// isHanded reports whether a path names a descriptor that this process was started with.
func isHanded(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// isSocket reports whether opening failed as it does for sockets, and for missing devices.
func isSocket(err error) bool {
	return errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EOPNOTSUPP)
}
