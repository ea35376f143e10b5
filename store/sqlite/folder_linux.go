package sqlite

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// remote are the file systems on which SQLite's locks and shared memory do not hold between
// processes.
var remote = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.FUSE_SUPER_MAGIC: "FUSE",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.V9FS_MAGIC:       "9P",
}

func localFolder(folder string) error {
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("no files can be made in %s: %w", folder, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	if name := remote[uint32(fs.Type)]; name != "" {
		return fmt.Errorf("%s is on %s: SQLite needs a local disk; use MySQL for several machines", folder, name)
	}
	return nil
}

// mayWrite and mayRead ask for the right and open nothing.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }
func mayRead(path string) error  { return unix.Access(path, unix.R_OK) }

// noRoom adds to an error what to do about a full disk or quota.
func noRoom(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w; make room on its disk for the database to grow", err)
	}
	return err
}
