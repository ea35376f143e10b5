//go:build !linux

package exechandler

// CanWarden reports whether Warden can do on this system what it promises: on Linux alone.
func CanWarden() bool { return false }

func beWarden() bool { return false }
