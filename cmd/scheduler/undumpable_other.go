//go:build !linux

package main

// disableDump is for Linux only.
func disableDump() {}
