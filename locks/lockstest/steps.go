package lockstest

import (
	"context"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Steps of a backend's own tests. Each fails the test at once if the service does not answer.

// Acquire asks once for keys, which must be sorted, under an id of the test's choice.
func Acquire(t *testing.T, s driver.Session, id string, keys ...string) []driver.Result {
	t.Helper()
	got, err := s.TryAcquire(t.Context(), id, Wants(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Grant acquires a key that must be free.
func Grant(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	got := Acquire(t, s, "id-"+key, key)
	if got[0].Token == 0 {
		t.Fatalf("%s was not granted: %+v", key, got[0])
	}
	return driver.Held{Key: key, Token: got[0].Token}
}

// Holds checks that the service reports h, as a session's hold, as want says.
func Holds(t *testing.T, s driver.Session, h driver.Held, want bool) {
	t.Helper()
	still, err := s.Check(t.Context(), []driver.Held{h})
	if err != nil {
		t.Fatal(err)
	}
	if still[0] != want {
		t.Errorf("%s still held under %d: %t, want %t", h.Key, h.Token, still[0], want)
	}
}

// Wants are requests for keys, each with the Meta "meta of " and the key.
func Wants(keys ...string) []driver.Want {
	w := make([]driver.Want, len(keys))
	for i, key := range keys {
		w[i] = driver.Want{Key: key, Meta: "meta of " + key}
	}
	return w
}

// Renew renews a session.
func Renew(ctx context.Context, c driver.Session) error {
	_, err := c.Renew(ctx, nil)
	return err
}
