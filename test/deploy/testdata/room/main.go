// Command room starts a program as a container engine would: room DIR PROGRAM ARGUMENTS…
//
// DIR becomes the root, read-only but for DIR/var/lib/lockstep, and the program runs as user 65532
// without a way back. Where this machine allows no mounts, ownership alone protects the root, and
// it says so on standard error.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const user = 65532

func main() {
	runtime.LockOSThread() // a namespace belongs to the thread that exec replaces the process from
	dir := os.Args[1]
	if err := mount(dir); err != nil {
		fmt.Fprintln(os.Stderr, "room: the root is protected by ownership alone:", err)
	}
	for _, step := range []func() error{
		func() error { return unix.Chroot(dir) },
		func() error { return unix.Chdir("/var/lib/lockstep") },
		func() error { return unix.Setgroups(nil) },
		func() error { return unix.Setresgid(user, user, user) },
		func() error { return unix.Setresuid(user, user, user) },
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
		func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) },
		func() error { return unix.Exec(os.Args[2], os.Args[2:], os.Environ()) },
	} {
		if err := step(); err != nil {
			fmt.Fprintln(os.Stderr, "room:", err)
			os.Exit(1)
		}
	}
}

// mount makes dir read-only, in a mount namespace of this process's own.
func mount(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	data := filepath.Join(dir, "var/lib/lockstep")
	for _, m := range []struct {
		at    string
		flags uintptr
	}{
		{"/", unix.MS_REC | unix.MS_PRIVATE},
		{dir, unix.MS_BIND},
		{data, unix.MS_BIND},
		{dir, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID},
	} {
		if err := unix.Mount(m.at, m.at, "", m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}
