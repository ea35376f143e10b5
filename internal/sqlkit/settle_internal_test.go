package sqlkit

import (
	"context"
	"errors"
	"testing"
)

// A server that says at once, and for ever, that it does not know what came of a COMMIT is not asked for ever.
func TestUnknownCommitsEnd(t *testing.T) {
	db := memory(t)
	calls := 0
	err := db.Sure(t.Context(), func() error { calls++; return ErrUnknownCommit })
	if !errors.Is(err, ErrUnknownCommit) || calls != mostLost+1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	over, cancel := context.WithCancel(t.Context())
	calls = 0
	err = db.Sure(over, func() error { calls++; cancel(); return ErrUnknownCommit })
	if !errors.Is(err, ErrUnknownCommit) || calls != 1 {
		t.Errorf("%v after %d calls, of whose time is over", err, calls)
	}
	for _, known := range []error{nil, errors.New("conflict")} {
		calls = 0
		if err := db.Sure(t.Context(), func() error { calls++; return known }); !errors.Is(err, known) || calls != 1 {
			t.Errorf("%v is known, and after %d calls %v", known, calls, err)
		}
	}
}
