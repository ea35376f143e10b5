//go:build linux

package nemesis

import (
	"context"
	"fmt"
)

// server is a process that can be frozen.
type server interface {
	Pause()
	Continue()
	PID() int
}

// freezeServer stops a server: connections stay open, without answers.
func freezeServer(name string, s server) (Struck, error) {
	pid := s.PID()
	s.Pause()
	return Struck{Heal: func(context.Context) (bool, string, error) {
		applied := stopped(pid)
		s.Continue()
		return applied, fmt.Sprintf("process %d of %s stood still (state T): %t", pid, name, applied), nil
	}}, nil
}
