package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A file that cannot be held before the time is over is away: whoever waits for it tries again.
func TestAFileThatIsNotHeldInTime(t *testing.T) {
	file, err := opener{}.Open(filepath.Join(t.TempDir(), "lockstep.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if err := file.Hold(over); !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := file.Hold(t.Context()); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}
