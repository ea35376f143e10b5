//go:build !unix

package main

// keepToOurselves is for Unix alone: elsewhere a process gets only what it is handed.
func keepToOurselves() {}
