package lockstest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// notices is for sessions with a Notifier.
var notices = []testCase{
	{"notices/reach all sessions of the namespace", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, elsewhere := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), namespace())
		others := heard(t, elsewhere)
		for _, c := range []driver.Session{a, b} {
			heard := heard(t, c)
			deadline := time.After(10 * time.Second)
			for got := ""; got != "pool/mail"; { // a notice may be lost
				if err := a.Notifier().Notify(calling(t), "pool/mail"); err != nil {
					t.Fatal(err)
				}
				select {
				case got = <-heard:
				case <-time.After(50 * time.Millisecond):
				case <-deadline:
					t.Fatal("no notice has arrived")
				}
			}
		}
		select {
		case got := <-others:
			t.Errorf("another namespace got %q", got)
		default:
		}
	}},
	{"notices/are read later or not at all", func(t *testing.T, s *suite) {
		a := s.warm(t, namespace())
		heard(t, a)
		for range 3000 { // nobody reads: no call waits for that
			if err := a.Notifier().Notify(calling(t), "a"); err != nil {
				t.Fatal(err)
			}
		}
	}},
}

// heard is where notices arrive.
func heard(t *testing.T, c driver.Session) <-chan string {
	t.Helper()
	topics, err := c.Notifier().Notified(calling(t))
	if err != nil {
		t.Fatal(err)
	}
	return topics
}
