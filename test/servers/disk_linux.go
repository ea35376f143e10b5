package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const diskFlags = syscall.MS_NOSUID | syscall.MS_NODEV

// NewDisk mounts a disk of so many bytes, all in memory: unused bytes cost nothing. false: this user may not
// mount. It is removed at the end of the test, or of the test binary, if that ends before.
func NewDisk(t testing.TB, size int64) (*Disk, bool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockstep-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	err = syscall.Mount("tmpfs", dir, "tmpfs", diskFlags, fmt.Sprintf("size=%d,mode=0755", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil, false
	}
	if err != nil {
		t.Fatalf("mount a disk: %v", err)
	}
	release := unmountAtExit(t, dir)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
		release()
	})
	return &Disk{Dir: dir, size: size}, true
}

// unmountAtExit starts a process that unmounts dir when this one has ended, however it ends: its standard input ends then.
// It has a group of its own, which no Ctrl-C reaches.
func unmountAtExit(t testing.TB, dir string) (release func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `read -r _; umount -l "$1" && rmdir "$1"`, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		t.Fatalf("a process to unmount %s: %v", dir, err)
	}
	return func() {
		_ = alive.Close()
		_ = cmd.Wait() // it had nothing to unmount, which umount reports as an error
	}
}

// Fill takes all room that is left; of an empty disk, all but one page.
func (d *Disk) Fill() error {
	var err error
	for range 100 { // another process may be writing
		var s syscall.Statfs_t
		if s, err = d.stat(); err != nil {
			return err
		}
		used := max(s.Blocks-s.Bfree, 1)
		if err = d.resize(int64(used) * s.Bsize); !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	return err
}

// Free gives back what Fill took.
func (d *Disk) Free() error { return d.resize(d.size) }

// Room is how many bytes are left.
func (d *Disk) Room() (int64, error) {
	s, err := d.stat()
	return int64(s.Bavail) * s.Bsize, err
}

// resize returns EINVAL if the disk has more data than the new size.
func (d *Disk) resize(size int64) error {
	if err := syscall.Mount("tmpfs", d.Dir, "tmpfs", diskFlags|syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("make the disk %d bytes: %w", size, err)
	}
	return nil
}

func (d *Disk) stat() (s syscall.Statfs_t, err error) {
	if err := syscall.Statfs(d.Dir, &s); err != nil {
		return s, fmt.Errorf("room of the disk: %w", err)
	}
	return s, nil
}
