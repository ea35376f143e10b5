// Package process names processes of this machine for good: pids are used again, a pid with its
// start time and the kernel's boot is not.
package process

// ID is a process. Zero fields are unknown.
type ID struct {
	Boot  string // of the kernel, and where it numbers its processes
	PID   int
	Start int64 // in clock ticks since boot
}
