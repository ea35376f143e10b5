//go:build !unix

package program

import "testing"

// Pause does nothing: a process cannot be stopped here.
func (p *Process) Pause(testing.TB, bool) {}
