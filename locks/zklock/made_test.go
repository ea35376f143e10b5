package zklock

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// What a driver cannot be made of is said by the first call that returns an error, without a server.
func TestWhatItIsMadeOf(t *testing.T) {
	for _, servers := range [][]string{nil, {}} {
		if _, err := locks.New(New(servers, Options{}), locks.Options{}); err == nil || err.Error() != "locks: zklock: New: no servers" {
			t.Error(err)
		}
	}
	if _, err := locks.New(New([]string{"127.0.0.1:1"}, Options{Auth: "nonsense"}), locks.Options{}); err == nil {
		t.Error("a login that is none is taken")
	}
}
