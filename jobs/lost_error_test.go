package jobs

import (
	"errors"
	"testing"
)

// A run that is refused for a lost attempt says whose that is, and is a conflict.
func TestLostError(t *testing.T) {
	e := &LostError{Job: "nightly", Force: "0197", Reason: "its attempt at replica web-1 may still be running; use force"}
	if want := "conflict: " + e.Reason; e.Error() != want || !errors.Is(e, ErrConflict) {
		t.Errorf("%q, want %q, which is ErrConflict", e, want)
	}
}
