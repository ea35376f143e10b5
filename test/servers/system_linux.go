package servers

import "syscall"

// attributes makes a server die with the test binary, however that ends. It is set on the final
// user's process: the kernel forgets the wish when a process changes its user.
func attributes(owner *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential(owner), Pdeathsig: syscall.SIGKILL}
}
