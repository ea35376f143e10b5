//go:build unix && !linux

package main

// closeOnExecFrom exists on Linux only.
func closeOnExecFrom(uint) bool { return false }
