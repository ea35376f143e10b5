//go:build unix && !linux

package exechandler

import "context"

func (c *command) startWarded(context.Context) (running, error) { return c.startHere() }
