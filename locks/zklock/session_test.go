package zklock

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// What the library and the servers say becomes the driver's words, with the operation and the servers.
func TestErrors(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	at := func(id int64, over, told bool) *session {
		s := newSession(New([]string{"zk1:2181", "zk2:2181"}, Options{}), driver.Open{Namespace: "prod"})
		s.zkSession, s.id = newZKSession(ttl, nil), id
		if s.confirmed.Store(told); over {
			s.end()
		}
		return s
	}
	for name, c := range map[string]struct {
		s    *session
		err  error
		want error
		lost bool
	}{
		"any error":                       {at(1, false, false), reset, reset, false},
		"no server":                       {at(1, false, false), zk.ErrNoServer, driver.ErrUnreachable, false},
		"the login is denied":             {at(1, false, false), zk.ErrAuthFailed, zk.ErrAuthFailed, false},
		"it is over, its login is denied": {at(1, true, false), zk.ErrAuthFailed, zk.ErrAuthFailed, false},
		"nodes of another user":           {at(1, false, false), zk.ErrNoAuth, zk.ErrNoAuth, false},
		"it has expired":                  {at(1, false, false), zk.ErrSessionExpired, driver.ErrSessionEnded, true},
		"it is over":                      {at(1, true, false), reset, driver.ErrSessionEnded, true},
		"it is over before there was one": {at(0, true, false), reset, reset, false},
	} {
		err := c.s.failed("list", c.err)
		if !errors.Is(err, c.want) || errors.Is(err, driver.ErrSessionEnded) != c.lost || !strings.HasPrefix(err.Error(), "zklock: list at zk1:2181,zk2:2181: ") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if denied := errors.Is(c.err, zk.ErrAuthFailed); denied != strings.Contains(err.Error(), "the server does not let") {
			t.Errorf("%s: %v; want it to say whether the login was denied", name, err)
		}
		if expired := name == "it has expired"; expired && (!c.s.isOver() || !c.s.confirmed.Load()) {
			t.Errorf("%s: the session goes on", name)
		}
	}
	if err := at(1, true, false).failed("list", nil); err != nil {
		t.Errorf("nothing: %v", err)
	}

	// A request for keys was not carried out if the session was over before, or the servers say that it is.
	for name, c := range map[string]struct {
		s    *session
		over bool // before it was sent
		err  error
		sure bool
	}{
		"over before":                           {at(1, true, false), true, reset, true},
		"over meanwhile, say the servers":       {at(1, true, true), false, reset, true},
		"over meanwhile, as it was not renewed": {at(1, true, false), false, reset, false},
	} {
		err := c.s.ungranted(c.over, c.err)
		if errors.Is(err, driver.ErrSessionEnded) != c.sure || !c.sure && !errors.Is(err, reset) {
			t.Errorf("%s: %v, want nothing granted for sure: %t", name, err, c.sure)
		}
	}
	if err := at(1, false, false).ungranted(false, zk.ErrNoServer); !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "given up") {
		t.Errorf("no server: %v", err)
	}
}
