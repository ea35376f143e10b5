package trustedfile_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// as runs fn in a thread that has the rights of a user alone, and that ends with it.
func as(t *testing.T, user int, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.LeaveOut(t, "needs to be root, to be another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, _, err := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user))
		if err != 0 || os.Geteuid() != user {
			done <- fmt.Errorf("this thread is no other user's: %w", err)
			return
		}
		fn()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The bits of the group are the upper bound of an ACL: the private group of the owner is not alone then.
func TestAnACLMayLetOthersWrite(t *testing.T) {
	t.Parallel()
	const me, other = 4321, 4322
	path := put(t, "x", 0o664)
	own(t, path, me, me)
	open, err := os.Open(path) // the folders above are for root alone
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	link := fmt.Sprintf("/proc/self/fd/%d", open.Fd())
	as(t, me, func() {
		if _, err := public.Read(link); err != nil {
			t.Errorf("without an ACL: %v", err)
		}
	})
	servers.Grant(t, path, other)
	as(t, me, func() {
		want := link + ": can be written by others (mode 0664, and it has an ACL); chmod go-w " + link
		if _, err := public.Read(link); err == nil || err.Error() != want {
			t.Errorf("with an ACL: %v", err)
		}
	})
	if err := os.Chmod(path, 0o644); err != nil { // what is advised takes the right from those, too
		t.Fatal(err)
	}
	as(t, me, func() {
		if _, err := public.Read(link); err != nil {
			t.Errorf("with an ACL that lets no one write: %v", err)
		}
	})
}

// Others of a database, which is not opened.
func TestOthersOfAFile(t *testing.T) {
	t.Parallel()
	const me = 4321
	for _, c := range []struct {
		mode        os.FileMode
		user, group int
		acl         bool
		problem     string
		change      bool
	}{
		{0o600, me, me, false, "", false},
		{0o660, me, me, false, "", false}, // its private group
		{0o600, 0, 0, false, "", false},
		{0o700, me, 0, false, "", false},
		{0o644, me, me, false, "can be read by others (mode 0644)", false},
		{0o640, me, me + 1, false, "can be read by others (mode 0640)", false},
		{0o640, 0, 0, false, "can be read by others (mode 0640)", false},
		{0o660, 0, 0, false, "can be written by others (mode 0660)", true},
		{0o660, me, me + 1, false, "can be written by others (mode 0660)", true},
		{0o666, me, me, false, "can be written by others (mode 0666)", true},
		{0o602, me, me, false, "can be written by others (mode 0602)", true},
		{0o664, me, me, true, "can be written by others (mode 0664)", true},
		{0o600, me + 1, me, false, "is owned by user 4322, who can change it", true},
	} {
		path := put(t, "x", c.mode)
		own(t, path, c.user, c.group)
		if c.acl {
			servers.Grant(t, path, me+1)
		}
		if problem, change := trustedfile.Others(path, me); problem != c.problem || change != c.change {
			t.Errorf("%+v: %q, %v", c, problem, change)
		}
		if problem, _ := trustedfile.Others(path, -1); problem != c.problem && c.user != me+1 || c.user == me+1 && problem != "" {
			t.Errorf("%+v: %q where any owner will do", c, problem)
		}
	}
	if problem, change := trustedfile.Others(t.TempDir()+"/none", me); problem != "" || change {
		t.Error("a file that is not there", problem)
	}
}
