// Package lockstest is the test of a lock backend: the contract of the driver, and package locks on top of it,
// with several clients and with loss.
package lockstest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Harness is one lock service to test against. A fault that is nil cannot be caused there; the log says which
// tests are left out for that reason.
type Harness struct {
	// Driver gives a new client, independent of all others: with its own connections, as in another
	// process. The suite closes it.
	Driver func(t *testing.T) driver.Driver
	// MinTTL is the shortest ttl that the service agrees to; 1 s if zero.
	MinTTL time.Duration
	// ExpireSession makes the server end the session now, as if its ttl had passed.
	ExpireSession func(t *testing.T, s driver.Session)
	// Disconnect disconnects one client until Reconnect: its requests do not arrive, or hang. The suite
	// reconnects before it closes the client.
	Disconnect func(t *testing.T, d driver.Driver)
	Reconnect  func(t *testing.T, d driver.Driver)
	// RestartEmpty stops the server and starts it without its data. It is called while no other case runs.
	RestartEmpty func(t *testing.T)
	// KeysDieAlone says that a key may be lost while its session stays, as when each has a connection: then
	// Check reports it after the next renewal.
	KeysDieAlone bool
	// Votes says that the service decides by votes: busy may then be said of one that is asking, and is not granted in the end.
	Votes bool
	// Brief says that this is another connection to a service that is tested whole elsewhere: long cases are
	// left out.
	Brief bool
}

type suite struct {
	Harness
	ttl time.Duration // of sessions
}

type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// has reports whether a session of the service has something.
func has(t *testing.T, s *suite, is func(c driver.Session) bool) bool {
	t.Helper()
	return is(s.warm(t, namespace()))
}

// Run tests the service that newHarness sets up. Cases run in parallel, each in a namespace of its
// own, and take less than half a minute together. They wait more than they work: a test binary that
// also runs on few CPUs may set test.parallel to 8 before it calls m.Run.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	s := &suite{Harness: newHarness(t)}
	s.ttl = max(s.MinTTL, time.Second)
	for fault, missing := range map[string]bool{
		"ExpireSession": s.ExpireSession == nil,
		"Disconnect":    s.Disconnect == nil || s.Reconnect == nil,
		"RestartEmpty":  s.RestartEmpty == nil,
	} {
		if missing {
			t.Logf("the harness has no %s: what depends on it is not tested", fault)
		}
	}
	cases := [][]testCase{exclusive, batch, idempotent, tokens, release, abandoning, session, loss, list, cancelled, keys, portable}
	caps := s.client(t).Caps()
	if has(t, s, func(c driver.Session) bool { return c.Queue() != nil }) {
		cases = append(cases, queue)
	} else if caps.FIFO {
		t.Error("Caps says that it has a queue, and its sessions have none")
	}
	if caps.FIFO {
		cases = append(cases, order)
	}
	if caps.Shared {
		cases = append(cases, shared)
	}
	if caps.Shared && caps.FIFO {
		cases = append(cases, readers)
	}
	if caps.Limit && caps.FIFO {
		cases = append(cases, limits)
	}
	if caps.Notices != has(t, s, func(c driver.Session) bool { return c.Notifier() != nil }) {
		t.Errorf("Caps.Notices is %t, and its sessions say otherwise", caps.Notices)
	}
	if caps.Notices {
		cases = append(cases, notices)
	}
	t.Run("together", func(t *testing.T) {
		for _, cases := range cases {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, s)
				})
			}
		}
	})
	alone, inTurn := linear, turns
	if s.Brief {
		alone, inTurn = linear[:1], turns[:1]
	}
	if caps.Shared {
		alone = append(slices.Clone(alone), inTurn...)
	}
	for _, c := range alone {
		t.Run("alone/"+c.name, func(t *testing.T) { c.run(t, s) })
	}
	if s.RestartEmpty != nil {
		for _, c := range restart {
			t.Run("alone/"+c.name, func(t *testing.T) { c.run(t, s) })
		}
	}
}
