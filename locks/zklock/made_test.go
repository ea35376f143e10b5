package zklock

import (
	"strings"
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

// Servers that other machines reach need a login, or the word that they are open on purpose; a chroot is no part of them.
func TestClosedByDefault(t *testing.T) {
	for name, c := range map[string]struct {
		servers []string
		o       Options
		want    string // "": it is taken
	}{
		"on loopback":               {[]string{"127.0.0.1:2181", "localhost:2181", "[::1]:2181", "127.9.9.9"}, Options{}, ""},
		"elsewhere":                 {[]string{"127.0.0.1:2181", "zk2:2181"}, Options{}, "every client that reaches zk2:2181 can"},
		"elsewhere without a port":  {[]string{"zk2"}, Options{}, "every client that reaches zk2 can"},
		"an address elsewhere":      {[]string{"10.0.0.1:2181"}, Options{}, "every client that reaches 10.0.0.1:2181 can"},
		"all addresses":             {[]string{"0.0.0.0:2181"}, Options{}, "every client that reaches 0.0.0.0:2181 can"},
		"elsewhere with a login":    {[]string{"zk2:2181"}, Options{Auth: alice}, ""},
		"elsewhere and open":        {[]string{"zk2:2181"}, Options{Insecure: true}, ""},
		"a chroot":                  {[]string{"127.0.0.1:2181/app"}, Options{}, "belongs into Options.Root"},
		"a connect string":          {[]string{"127.0.0.1:2181,127.0.0.1:2182"}, Options{}, "not one server"},
		"a login that is none":      {[]string{"zk2:2181"}, Options{Auth: "hunter2"}, "user:password"},
		"open with a login like it": {[]string{"zk2:2181"}, Options{Auth: "hunter2", Insecure: true}, "user:password"},
	} {
		err := New(c.servers, c.o).Valid()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.want == "" {
			continue
		}
		if _, opened := New(c.servers, c.o).Open(t.Context(), driver.Open{Namespace: "a", TTL: ttl}); opened == nil || opened.Error() != err.Error() {
			t.Errorf("%s: open says %v, want %v", name, opened, err)
		}
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
