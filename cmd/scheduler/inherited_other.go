//go:build !unix

package main

// closeInherited is for Unix: elsewhere a child gets only the handles passed to it.
func closeInherited() {}
