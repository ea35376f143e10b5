package scenarios

import (
	"strconv"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// register is what locks guard: it takes a write only with a token that is not smaller than the last one.
type register struct{ last map[string]locks.Token }

func (r *register) write(key string, token locks.Token) bool {
	if token < r.last[key] {
		return false
	}
	r.last[key] = token
	return true
}

// A process with keys of each kind is stopped (SIGSTOP) until others have its keys and have written. When it goes on it gets
// the signal that they are lost, and its own writes, which it sends as if it had looked before it was stopped, are refused.
func TestPausedHolder(t *testing.T) {
	eachBackend(t, func(t *testing.T, s site) {
		if s.caps.SingleProc {
			t.Log("it excludes within one process only, so no other process can hold a key")
			return
		}
		h := newHolder(t, s)
		program.Pause(t, h.Process, true)
		waits := waitForHeld(t, s, s.locker(t, "waiter"))
		r := register{last: map[string]locks.Token{}}
		for name, wait := range waits {
			got := <-wait
			if got.err != nil {
				t.Fatalf("%s: %v", name, got.err)
			}
			for _, lease := range got.leases {
				if !r.write(lease.Key(), lease.Token()) {
					t.Errorf("%s: the write of the holder was refused", lease.Key())
				}
			}
		}
		program.Pause(t, h.Process, false)
		lost, refused := map[string]int{}, map[string]bool{}
		for n := len(r.last) + 1; n > 0; n-- { // one key has two leases
			words := h.next(t)
			if words[0] != "lost" {
				t.Fatalf("the holder says %v", words)
			}
			lost[words[1]]++
		}
		h.write()
		for range r.last {
			words := h.next(t)
			token, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil || words[0] != "write" {
				t.Fatalf("the holder says %v", words)
			}
			refused[words[1]] = !r.write(words[1], locks.Token(token))
		}
		for _, k := range kinds {
			requests := heldKeys(s)[k.name]
			if requests == nil {
				continue
			}
			s := s
			s.kind = k
			t.Run(k.name, func(t *testing.T) {
				want := 1
				if k.name == reentrant.name {
					want = 2
				}
				for _, request := range requests {
					key := "user/" + request.Key
					if lost[key] != want {
						t.Errorf("%s: %d signals, want %d", key, lost[key], want)
					}
					if !refused[key] {
						t.Errorf("%s: the write of a holder that was stopped for longer than its session is taken", key)
					}
				}
				shown.held(t, s, "TestPausedHolder", "a paused holder is told when it wakes, its write is refused")
			})
		}
	})
}
