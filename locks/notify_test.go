package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// ears is what a Locker hears.
type ears struct {
	mu     sync.Mutex
	topics []string
}

// listen listens until ctx ends, or the Locker is closed.
func listen(ctx context.Context, l *locks.Locker) (e *ears, ended <-chan error) {
	e = &ears{}
	end := make(chan error, 1)
	go func() {
		end <- l.Listen(ctx, func(topic string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.topics = append(e.topics, topic)
		})
	}()
	synctest.Wait()
	return e, end
}

func (e *ears) heard(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.topics, want) {
		t.Errorf("heard %q, want %q", e.topics, want)
	}
	e.topics = nil
}

func notify(t *testing.T, l *locks.Locker, topic string) {
	t.Helper()
	if err := l.Notify(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

// A notice reaches all Lockers of the namespace that listen, in one call, also after their sessions have ended; until ctx ends.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		elsewhere := start(t, service, locks.Options{Owner: "three", Namespace: "elsewhere"})
		ctx, stop := context.WithCancel(t.Context())
		mine, ended := listen(ctx, l)
		theirs, _ := listen(ctx, other)
		far, _ := listen(ctx, elsewhere)
		notify(t, l, "pool/mail")
		mine.heard(t, "pool/mail")
		theirs.heard(t, "pool/mail")
		if n := f.count("notify"); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		service.Expire(f.last.ID())
		time.Sleep(time.Minute) // a renewal finds out
		notify(t, other, "again")
		mine.heard(t, "again")
		far.heard(t)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%v, want nil after the end of ctx", err)
		}
		notify(t, other, "late")
		mine.heard(t)
	})
}

// Listen goes on after an outage, and ends when the Locker is closed.
func TestListenThroughOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		service.Stop()
		mine, ended := listen(t.Context(), l)
		if err := other.Notify(t.Context(), "lost"); !errors.Is(err, locks.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		time.Sleep(time.Minute)
		if n := f.count("open"); n < 10 || n > 70 {
			t.Errorf("asked %d times in a minute", n)
		}
		service.Start()
		time.Sleep(10 * time.Second)
		notify(t, other, "a")
		mine.heard(t, "a")
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, locks.ErrUnavailable) {
			t.Errorf("%v after Close, want ErrUnavailable", err)
		}
	})
}

// Notify refuses topics that no backend could send, and says so where a backend sends none.
func TestNotifyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		f := newFaulty(service)
		l := start(t, f, locks.Options{Owner: "one"})
		for _, topic := range []string{"", "a b", "a\n", "ä", strings.Repeat("x", 101)} {
			if err := l.Notify(t.Context(), topic); err == nil || !strings.Contains(err.Error(), "1 to 100 printable") {
				t.Errorf("topic %q: %v", topic, err)
			}
		}
		caps := service.Caps()
		caps.Notices = false
		f.caps = &caps
		if err := l.Notify(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, locks.ErrUnavailable) {
			t.Errorf("%v, want ErrUnsupported", err)
		}
		if err := l.Listen(t.Context(), func(string) {}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want ErrUnsupported", err)
		}
		if n := f.count("open"); n > 0 {
			t.Errorf("%d sessions were opened to find that out", n)
		}
		f.caps = nil
		f.on(only("notify", func(context.Context, string, func() error) error { return errNet }))
		if err := l.Notify(t.Context(), "a"); !errors.Is(err, locks.ErrUnavailable) || !errors.Is(err, errNet) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	})
}

// Several listeners of one Locker hear each notice, and one that is slow keeps none from the others.
func TestSeveralListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		slow := make(chan struct{})
		go func() { _ = l.Listen(t.Context(), func(string) { <-slow }) }()
		ctx, stop := context.WithCancel(t.Context())
		first, ended := listen(ctx, l)
		second, _ := listen(t.Context(), l)
		want := make([]string, 0, 100)
		for i := range 100 {
			want = append(want, fmt.Sprint("pool/", i))
			notify(t, other, want[i])
			synctest.Wait()
		}
		first.heard(t, want...)
		second.heard(t, want...)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		notify(t, other, "late")
		first.heard(t)
		second.heard(t, "late")
		close(slow)
	})
}
