package clock

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// Clock is the wall clock of the processes that were started with its Env. It may be stepped at any
// time, also before they start, and by several processes.
type Clock struct{ file string }

// New makes a clock that shows the machine's time, kept in file.
func New(file string) (*Clock, error) {
	c := &Clock{file: file}
	if err := os.WriteFile(file, make([]byte, 8), 0o600); err != nil {
		return nil, fmt.Errorf("clock: %w", err)
	}
	return c, nil
}

// Env is the environment of a program built with Overlay that shows this clock. Without it, it shows the
// machine's.
func (c *Clock) Env() string { return "LOCKSTEP_TEST_CLOCK=" + c.file }

// Step makes wall time d ahead of the machine's, or behind it, from now on. Monotonic time does not
// move. Step(0) heals it.
func (c *Clock) Step(d time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	// One write of eight aligned bytes: readers see it whole.
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d)), 0)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	return nil
}
