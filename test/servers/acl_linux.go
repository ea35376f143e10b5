package servers

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Grant lets a user read and write a file by an ACL, as setfacl -m u:USER:rw does: the bits of the file's group are what the
// ACL grants at most then. It leaves the test out where the file system has no ACLs.
func Grant(t testing.TB, path string, user uint32) {
	t.Helper()
	const none = ^uint32(0)
	acl := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{
		{0x01, 6, none}, // the owner
		{0x02, 6, user},
		{0x04, 4, none}, // the group
		{0x10, 6, none}, // the mask
		{0x20, 4, none}, // others
	} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	switch err := unix.Setxattr(path, "system.posix_acl_access", acl, 0); {
	case errors.Is(err, unix.ENOTSUP):
		LeaveOut(t, "needs a file system with ACLs, for "+path)
	case err != nil:
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != fs.FileMode(0o664) {
		t.Fatalf("%v, %v: the group's bits are not those of the mask", info.Mode(), err)
	}
}
