package trustedfile

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// mountedReadOnly reports whether no user can write a file because of its mount, and whether that mount is for
// the file or a folder above it: a service manager may make the whole system read-only for a service, while
// other processes can write.
func mountedReadOnly(f *os.File) bool {
	var stat unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &stat) != nil || stat.Flags&unix.ST_RDONLY == 0 {
		return false
	}
	root, err := os.Open("/")
	if err != nil {
		return false
	}
	defer root.Close()
	own, top := mountOf(f), mountOf(root)
	return own != "" && top != "" && own != top
}

// mountOf is the number of the mount of an open file; "" if the kernel does not report it.
func mountOf(f *os.File) string {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if id, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return string(bytes.TrimSpace(id))
		}
	}
	return ""
}
