package trustedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// accessACL is the attribute with the permissions of other users and groups, if there are any. The bits of the
// group are then the most that these may have.
const accessACL = "system.posix_acl_access"

// hasACL reports whether an open file has one, or may have.
func hasACL(f *os.File) bool { return has(unix.Fgetxattr(int(f.Fd()), accessACL, nil)) }

// hasACLAt is hasACL of the file that path names.
func hasACLAt(path string) bool { return has(unix.Getxattr(path, accessACL, nil)) }

// has is false if the system is sure.
func has(_ int, err error) bool {
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}
