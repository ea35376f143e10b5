package sqllock_test

import (
	"crypto/rand"
	"database/sql"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Who finds a key busy, or waits for it, learns who has it, and how long that can have it without a renewal. In mode row nobody
// knows that: the server frees the key once the connection is closed, or was silent for too long.
func TestBusyForHowLong(t *testing.T) {
	every(t, func(t *testing.T, _ *sql.DB, d driver.Driver) {
		a, b := session(t, d, time.Minute), session(t, d, time.Minute)
		wants := []driver.Want{{Key: "alone"}}
		if d.Caps().Shared {
			wants = append(wants, driver.Want{Key: "together", Shared: true})
		}
		for _, w := range wants {
			if got, err := a.TryAcquire(t.Context(), rand.Text(), []driver.Want{w}); err != nil || got[0].Token == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			found := map[string]*driver.Info{}
			for _, how := range []string{"busy", "busy again"} { // which is answered by another statement
				tried, err := b.TryAcquire(t.Context(), rand.Text(), []driver.Want{{Key: w.Key}})
				if err != nil {
					t.Fatal(err)
				}
				found[how] = tried[0].Holder
			}
			looked, err := b.Queue().Look(t.Context(), []driver.Place{wait(t, b, w.Key)})
			if err != nil {
				t.Fatal(err)
			}
			found["queued"] = looked[0].Holder
			for how, h := range found {
				known := h != nil && h.Session == a.ID() && h.Remaining > 0 && h.Remaining <= a.TTL()
				if d.Caps().Name == "mysql-row" {
					known = h != nil && h.Session == a.ID() && h.Remaining == 0
				}
				if !known {
					t.Errorf("%s, %s: %+v, want the session %s and how much remains of %v", w.Key, how, h, a.ID(), a.TTL())
				}
			}
		}
	})
}
