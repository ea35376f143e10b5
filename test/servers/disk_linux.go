package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a small disk that belongs to one test.
type Disk struct{ Dir string }

// NewDisk mounts a disk of so many bytes, all in memory. false: this user may not mount. It is gone
// at the end of the test, with all that is on it; a test binary that does not get there leaves it.
func NewDisk(t testing.TB, size int64) (*Disk, bool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockstep-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%d,mode=0755", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil, false
	}
	if err != nil {
		t.Fatalf("mount a disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return &Disk{Dir: dir}, true
}

// Fill takes all room that is left.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	defer f.Close()
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		_, err := f.Write(chunk)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			chunk = chunk[:len(chunk)/2]
		case err != nil:
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
	return nil
}

// Free gives back what Fill took.
func (d *Disk) Free() error { return os.Remove(d.filler()) }

// Room is how many bytes are left.
func (d *Disk) Room() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Dir, &s); err != nil {
		return 0, fmt.Errorf("room of the disk: %w", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }
