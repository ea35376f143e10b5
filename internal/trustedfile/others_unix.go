//go:build unix

package trustedfile

import (
	"fmt"
	"os"
	"syscall"
)

// Others says what users beside root and the owner may do with a file that is not read through this package,
// such as a database, and whether that is to change it; "" if nothing, or if there is no such file. An owner
// that is neither root nor the user counts as other; a negative user is any. The file is not opened: closing it
// would drop the locks that SQLite has on it.
func Others(path string, user int) (problem string, change bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	theirs := mode & 0o006
	if !isPrivate(stat) || hasACLAt(path) {
		theirs |= mode & 0o060
	}
	switch {
	case theirs&0o022 != 0:
		return fmt.Sprintf("can be written by others (mode %04o)", mode), true
	case user >= 0 && stat.Uid != 0 && int(stat.Uid) != user:
		return fmt.Sprintf("is owned by user %d, who can change it", stat.Uid), true
	case theirs&0o044 != 0:
		return fmt.Sprintf("can be read by others (mode %04o)", mode), false
	}
	return "", false
}

// isPrivate reports whether the group of a file is the private one of its owner, as useradd makes it. Group 0
// is not private: some container platforms put every user in it.
func isPrivate(stat *syscall.Stat_t) bool { return stat.Gid == stat.Uid && stat.Gid != 0 }
