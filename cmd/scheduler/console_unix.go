//go:build unix

package main

import (
	"os"
	"syscall"
)

// terminalFlags look at a terminal without waiting for it.
const terminalFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
