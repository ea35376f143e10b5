//go:build unix

package servers

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

func credential(owner *account) *syscall.Credential {
	if owner == nil {
		return nil
	}
	return &syscall.Credential{Uid: owner.uid, Gid: owner.gid}
}

// tied is what attributes says, beside what a program has of its own.
func tied(own *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := attributes(nil)
	if own != nil {
		a.Setpgid, a.Setsid, a.Setctty, a.Credential = own.Setpgid, own.Setsid, own.Setctty, own.Credential
	}
	return a
}

// lockFile waits until f is not locked. The lock ends with the file.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// ownerOf is the user that a file belongs to.
func ownerOf(info fs.FileInfo) (uid uint32, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return stat.Uid, true
}
