package scenarios

import (
	"testing"
	"time"
)

// late is how much later than at the end of the session a key may be granted: a service is asked each second, and the machine
// is busy.
const late = 3 * time.Second

// A process with keys of each kind is killed (SIGKILL). Those who wait have them within the end of its session.
func TestCrashedHolder(t *testing.T) {
	eachBackend(t, func(t *testing.T, s site) {
		if s.caps.SingleProc {
			t.Log("it excludes within one process only, so no other process can hold a key")
			return
		}
		h := newHolder(t, s)
		waits := waitForHeld(t, s, s.locker(t, "waiter"))
		died := time.Now()
		if err := h.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, k := range kinds {
			wait := waits[k.name]
			if wait == nil {
				continue
			}
			s := s
			s.kind = k
			t.Run(k.name, func(t *testing.T) {
				got := <-wait
				if got.err != nil {
					t.Fatal(got.err)
				}
				after := got.at.Sub(died)
				if after < 0 {
					t.Errorf("granted %v before the holder was killed", -after)
				}
				t.Logf("free %v after the kill; the ttl is %v", after, shortTTL)
				if after > shortTTL+late {
					t.Errorf("free only %v after the kill; its session lives for %v", after, shortTTL)
				}
				note := "free at the end of its session"
				if after < shortTTL/2 { // the last renewal was at most a third of the ttl before
					note = "free at once"
				}
				shown.held(t, s, "TestCrashedHolder", note)
			})
		}
	})
}
