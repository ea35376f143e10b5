//go:build unix

package outfile

import "syscall"

// plainly refuses links, and does not wait for a reader of a FIFO.
const plainly = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
