//go:build !unix

package main

import "os"

// closeInherited is for Unix: elsewhere a child gets only the handles passed to it.
func closeInherited() {}

// inBackground is for Unix: elsewhere there are no foreground processes of a terminal.
func inBackground(*os.File) bool { return false }

// passedOnOnly are signals of Unix.
var passedOnOnly []os.Signal

const terminalFlags = os.O_RDONLY // there is no /dev/tty

// openFiles is the process's limit of open files; 0: unknown.
func openFiles() int { return 0 }
