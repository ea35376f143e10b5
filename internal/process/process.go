// Package process identifies processes of this machine uniquely: pids are reused, a pid with its start time and
// the kernel's boot is not.
package process

import "fmt"

// Warden is the first argument (argv[0]) of a process that ends the commands of another one, once that one is
// gone. Its other arguments are "of" and the other's ID.Tag.
const Warden = "lockstep-warden"

// Gate is the first argument of a process that limits itself and then becomes another program.
const Gate = "lockstep-gate"

// ID is a process. Zero fields are unknown.
type ID struct {
	Boot  string // of the kernel, and of the pid namespace
	PID   int
	Start int64 // in clock ticks since boot
}

// Tag identifies the process for others of the same boot.
func (id ID) Tag() string { return fmt.Sprintf("%d/%d", id.PID, id.Start) }
