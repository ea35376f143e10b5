// Package process names processes of this machine for good: pids are used again, a pid with its
// start time and the kernel's boot is not.
package process

import "fmt"

// Warden is the first argument (argv[0]) of a process that ends what another one has started, once that
// one is gone. Its other arguments are "of" and the other's ID.Tag.
const Warden = "lockstep-warden"

// ID is a process. Zero fields are unknown.
type ID struct {
	Boot  string // of the kernel, and where it numbers its processes
	PID   int
	Start int64 // in clock ticks since boot
}

// Tag names the process to others of the same boot.
func (id ID) Tag() string { return fmt.Sprintf("%d/%d", id.PID, id.Start) }
