//go:build !linux

package main

// disableDump is for Linux only.
func disableDump() {}

// closeOnExecFrom exists on Linux only.
func closeOnExecFrom(uint) bool { return false }
