package lockstest

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// prompt is how long a call may take after its context was done.
const prompt = time.Second

var cancelled = []testCase{
	{"context/done before the call", func(t *testing.T, s *suite) {
		ns, d := namespace(), s.client(t)
		c := s.kept(t, d, ns)
		held := s.take(t, c, "user/a")
		done, cancel := context.WithCancel(t.Context())
		cancel()
		every(t, done, d, c, s.open(t, d, ns), ns, held)
		if !still(t, c, held) {
			t.Log("the release went through though its context was done")
		}
	}},
	{"context/done while the client is cut off", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			t.Skip("the harness cannot cut off a client")
		}
		ns, d := namespace(), s.client(t)
		s.warm(t, ns)
		c := s.open(t, d, ns)
		held, closed := s.take(t, c, "user/a"), s.open(t, d, ns)
		s.Disconnect(t, d)
		defer s.Reconnect(t, d)
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		every(t, short, d, c, closed, ns, held)
	}},
}

// every makes each call at the same time; each must be back soon after ctx is done. closed is another session, which is closed.
func every(t *testing.T, ctx context.Context, d driver.Driver, c, closed driver.Session, ns string, held driver.Held) {
	t.Helper()
	calls := map[string]func() error{
		"Open": func() error {
			opened, err := d.Open(ctx, driver.Open{Namespace: ns, TTL: c.TTL()})
			if err == nil {
				_ = opened.Close(context.WithoutCancel(ctx))
			}
			return err
		},
		"Renew": func() error { return Renew(ctx, c) },
		"TryAcquire": func() error {
			_, err := c.TryAcquire(ctx, "cancelled", Wants("user/cancelled"))
			return err
		},
		"Release": func() error { return c.Release(ctx, []driver.Held{held}) },
		"Check": func() error {
			_, err := c.Check(ctx, []driver.Held{held})
			return err
		},
		"List": func() error {
			_, err := c.List(ctx, "", "", 10)
			return err
		},
		"Abandon": func() error { return c.Abandon(ctx, "abandoned", []string{"user/abandoned"}) },
		"Close":   func() error { return closed.Close(ctx) },
		"Evict": func() error {
			_, err := c.Evict(ctx, held.Key, held.Token+1)
			return err
		},
	}
	if q := c.Queue(); q != nil {
		calls["Queue.Acquire"] = func() error {
			_, err := q.Acquire(ctx, "queued", nil, Wants("user/queued"))
			return err
		}
		calls["Queue.Look"] = func() error {
			_, err := q.Look(ctx, []driver.Place{{Acquisition: "looked", Key: "user/looked"}})
			return err
		}
	}
	if n := c.Notifier(); n != nil {
		calls["Notifier.Notify"] = func() error { return n.Notify(ctx, "topic") }
		calls["Notifier.Notified"] = func() error {
			_, err := n.Notified(ctx)
			return err
		}
	}
	type answer struct {
		name string
		took time.Duration
		err  error
	}
	answers := make(chan answer, len(calls))
	for name, call := range calls {
		go func() {
			began := time.Now()
			err := call()
			answers <- answer{name, time.Since(began), err}
		}()
	}
	timeout := time.After(callTimeout)
	for range calls {
		select {
		case a := <-answers:
			if a.took > prompt {
				t.Errorf("%s came back after %v (%v), want less than %v", a.name, a.took, a.err, prompt)
			}
			if a.err == nil && ctx.Err() != nil {
				t.Logf("%s succeeded though its context was done", a.name)
			}
		case <-timeout:
			t.Fatalf("calls hang though their context is done")
		}
	}
}
