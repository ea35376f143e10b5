//go:build unix && !linux

package main

// closeOnExecFrom is for Linux alone.
func closeOnExecFrom(uint) bool { return false }
