//go:build !linux

package exechandler

// CanWarden reports whether Warden works on this system: on Linux alone.
func CanWarden() bool { return false }

func beWarden() bool { return false }
