//go:build !unix

package exechandler

import (
	"context"
	"errors"
	"fmt"
)

// Run needs a Unix system: without process groups a command cannot be stopped with all that it started.
func (Foreground) Run(context.Context) (code int, err error) {
	return 0, fmt.Errorf("commands need a Unix system: %w", errors.ErrUnsupported)
}
