//go:build unix && !linux

package servers

import "syscall"

func attributes(owner *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential(owner)}
}
