package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A renewal whose context ends before it has asked the connections is an error, since not all of them were kept from falling
// silent. It loses no key and does not end the session.
func TestARenewalThatEndsBeforeItAskedLosesNothing(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	begun, err := New(db, MySQL, Options{Mode: Row}).Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := begun.(*rowSession)
	defer s.Close(context.WithoutCancel(t.Context()))
	got, err := s.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}})
	if err != nil || got[0].Token == 0 {
		t.Fatal(got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.ping(ended); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("%v; want the error of the context, and no end of the session", err)
	}
	held := []driver.Held{{Key: "k", Token: got[0].Token}}
	if evicted, err := s.Renew(t.Context(), held); evicted || err != nil {
		t.Errorf("the next renewal: evicted %t, %v", evicted, err)
	}
	if still, err := s.Check(t.Context(), held); err != nil || !still[0] {
		t.Errorf("check: %v, %v", still, err)
	}
}
