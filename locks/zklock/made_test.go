package zklock

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Invalid arguments of a driver are reported by the first call that returns an error, without a server.
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

// The session timeout that is set is asked for, else the TTL; and a quarter of it, at most a second, is not trusted.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		-1: time.Second, 0: time.Second, 2 * time.Second: time.Second / 2, time.Minute: time.Second,
	} {
		if got := New(nil, Options{SessionTimeout: timeout}).Caps().TrustMargin; got != want {
			t.Errorf("margin %v for a timeout of %v, want %v", got, timeout, want)
		}
	}
	addr := servers.ZooKeeper(t)
	for _, c := range []struct{ set, ttl, want time.Duration }{
		{0, 2 * time.Second, 2 * time.Second}, {-1, 2 * time.Second, 2 * time.Second}, {3 * time.Second, 2 * time.Second, 3 * time.Second},
	} {
		d := New([]string{addr}, Options{SessionTimeout: c.set})
		s, err := d.Open(t.Context(), driver.Open{Namespace: "timeouts", TTL: c.ttl})
		if err != nil {
			t.Fatal(err)
		}
		if s.TTL() != c.want || d.Caps().TrustMargin != c.want/4 {
			t.Errorf("%+v: ttl %v, margin %v", c, s.TTL(), d.Caps().TrustMargin)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
