//go:build !unix

package exechandler

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Without process groups a command cannot be stopped with all that it started.
func (h *Handler) run(context.Context, string, []string, []string, []byte, io.Writer) error {
	return fmt.Errorf("commands need a Unix system; use http or func here: %w", errors.ErrUnsupported)
}
