//go:build !linux

package exechandler

// CanWarden is whether Warden can do on this system what it promises: on Linux.
const CanWarden = false

func beWarden() bool { return false }
