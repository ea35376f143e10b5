package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// identify leaves out the device, whose number may be another after each start of the machine.
func identify(path string) (id identity, err error) {
	var info unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &info)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // an old kernel, or a sandbox
		return id, nil
	case err != nil:
		return id, fmt.Errorf("%s: %w", path, err)
	}
	binary.LittleEndian.PutUint64(id[:], info.Ino)
	if info.Mask&unix.STATX_BTIME != 0 {
		binary.LittleEndian.PutUint64(id[8:], uint64(info.Btime.Sec)*1e9+uint64(info.Btime.Nsec)) //nolint:gosec // only compared
	}
	return id, nil
}
