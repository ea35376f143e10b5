package main

import (
	"os"
	"slices"

	"golang.org/x/term"
)

// console is the terminal that this process was started from, if any.
type console struct {
	controlling bool
	streams     []int // standard streams that were terminals at the start
}

func openConsole() console {
	c := console{controlling: hasTerminal()}
	for fd := range 3 {
		if term.IsTerminal(fd) {
			c.streams = append(c.streams, fd)
		}
	}
	return c
}

// closed reports whether the terminal is gone. The kernel detaches it before it sends SIGHUP.
func (c console) closed() bool {
	return c.controlling && !hasTerminal() || slices.ContainsFunc(c.streams, func(fd int) bool { return !term.IsTerminal(fd) })
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", terminalFlags, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
