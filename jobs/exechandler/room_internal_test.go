//go:build unix

package exechandler

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
)

// What a start wants room for is distinguished from other errors, whatever wraps it.
func TestNoRoom(t *testing.T) {
	const descriptors, processes = "raise the limit (ulimit -n, LimitNOFILE=)", "no room for another process"
	for _, c := range []struct {
		errno  syscall.Errno
		remedy string // "": it is not for want of room
	}{
		{syscall.EMFILE, descriptors},
		{syscall.ENFILE, descriptors},
		{syscall.EAGAIN, processes},
		{syscall.ENOMEM, processes},
		{syscall.ENOENT, ""},
		{syscall.EACCES, ""},
	} {
		for _, err := range []error{
			&fs.PathError{Op: "fork/exec", Path: "/bin/cat", Err: c.errno},
			os.NewSyscallError("pipe2", c.errno),
			&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("socket", c.errno)},
		} {
			got := noRoom("cat", err)
			if c.remedy == "" {
				if got != nil || errors.Is(explain("cat", "", err), abort.ErrNoRoom) {
					t.Errorf("%v: %v", err, got)
				}
				continue
			}
			for _, got := range []error{got, explain("cat", "/none", err)} {
				if !errors.Is(got, abort.ErrNoRoom) || !errors.Is(got, c.errno) || !strings.Contains(got.Error(), c.remedy) {
					t.Errorf("%v: %v does not say %q", err, got, c.remedy)
				}
			}
		}
	}
}
