//go:build !linux

package main

// shield is for Linux alone.
func shield() {}
