//go:build unix

package main

import (
	"os"
	"syscall"
)

// terminalFlags open a terminal without blocking and without making it the controlling one.
const terminalFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
