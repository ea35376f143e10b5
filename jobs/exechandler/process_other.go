//go:build !unix

package exechandler

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Without process groups a command cannot be stopped with all that it started.
func (h *Handler) run(context.Context, string, []string, []string, jobs.Task, io.Writer) error {
	return fmt.Errorf("commands need a Unix system; use http or func here: %w", errors.ErrUnsupported)
}
