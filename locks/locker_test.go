package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestNew(t *testing.T) {
	for name, o := range map[string]locks.Options{
		"short ttl":             {TTL: 999 * time.Millisecond},
		"negative call timeout": {CallTimeout: -1},
		"blank in namespace":    {Namespace: "a b"},
		"long namespace":        {Namespace: strings.Repeat("n", 201)},
		"long owner":            {Owner: strings.Repeat("o", 513)},
	} {
		if _, err := locks.New(memlock.New(), o); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	for name, d := range map[string]driver.Driver{
		"no driver": nil, "a driver that is nil": (*memlock.Service)(nil), "one that says what is wrong": invalid{memlock.New()},
	} {
		if _, err := locks.New(d, locks.Options{}); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	f := newFaulty(memlock.New())
	l := start(t, f, locks.Options{})
	if st := l.State(); st.Up || st.Err != nil || st.Session != "" || st.Since.IsZero() {
		t.Errorf("state %+v", st)
	}
	if l.Caps().Name != "memory" {
		t.Errorf("caps %+v", l.Caps())
	}
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("close of one that was never used: %v", err)
	}
	if len(f.counts()) != 0 {
		t.Errorf("calls %v, want none", f.counts())
	}
}

// invalid is a driver that was made of nonsense.
type invalid struct{ driver.Driver }

func (invalid) Valid() error { return errors.New("no address") }

// While a lost session is replaced there is none, and nothing is wrong with the service.
func TestStateBetweenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		f.on(only("open", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}))
		lost := f.last.ID()
		close(f.last.lost)
		for _, up := range []bool{false, true} {
			synctest.Wait()
			if st := l.State(); st.Up != up || st.Err != nil || (st.Session != "") != up || st.Session == lost || !st.Since.Equal(time.Now()) {
				t.Errorf("state %+v, want it up: %v", st, up)
			}
			time.Sleep(1050 * time.Millisecond) // a pause and the opening
		}
	})
}

func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		service.Stop()
		err := l.Connect(t.Context())
		wantErr(t, "ready", err, locks.ErrUnavailable)
		if !strings.Contains(err.Error(), "the service is stopped") {
			t.Errorf("%q does not name the cause", err)
		}
		service.Start()
		f.on(hangs)
		began := time.Now()
		err = l.Connect(t.Context())
		wantErr(t, "ready", err, locks.ErrUnavailable)
		if !strings.Contains(err.Error(), "no answer within 2s") || time.Since(began) > 2*time.Second {
			t.Errorf("%q after %v", err, time.Since(began))
		}
		f.on(nil)
		time.Sleep(3 * time.Second)
		for range 3 {
			if err := l.Connect(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if st := l.State(); !st.Up || st.Session == "" || st.Session != f.last.ID() {
			t.Errorf("state %+v", st)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		a, b := take(t, l, "user/a"), take(t, l, "user/b")
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		endsAfter(t, a, locks.ErrReleased, 0, 0)
		if err := b.Release(t.Context()); err != nil {
			t.Errorf("release after close: %v", err)
		}
		take(t, other, "user/a")
		take(t, other, "user/b")
		calls := f.counts()
		if calls["close"] != 1 || calls["release"] != 0 {
			t.Errorf("calls %v, want one close and no release", calls)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/c"})
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		wantErr(t, "connect", l.Connect(t.Context()), locks.ErrUnavailable)
		for _, err := range l.Inspect(t.Context(), "") {
			wantErr(t, "inspect", err, locks.ErrUnavailable)
		}
		time.Sleep(time.Minute)
		if calls["open"] != f.count("open") || calls["renew"] != f.count("renew") {
			t.Errorf("calls %v, then %v: something still runs", calls, f.counts())
		}
	})
}

// Close does not wait for a service that hangs longer than for one call, and says so. The bubble
// sees to it that no goroutine is left.
func TestCloseWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(hangs)
		time.Sleep(4 * time.Second) // a renewal is under way
		attempt := try(t, l, locks.Request{Key: "user/b"})
		wantErr(t, "attempt", attempt.Err, locks.ErrUnknown)
		began := time.Now()
		err := l.Close(t.Context())
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v, want it to say that the session could not be closed", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		endsAfter(t, lease, locks.ErrReleased, 0, 0)
		wantBusy(t, other, "user/a")
		time.Sleep(10 * time.Second)
		take(t, other, "user/a")
	})
}

// A session that a caller opens while Close runs is not left behind.
func TestCloseWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("open", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}))
		go func() {
			time.Sleep(500 * time.Millisecond)
			if err := l.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		var waits sync.WaitGroup
		waits.Go(func() {
			time.Sleep(250 * time.Millisecond)
			wantErr(t, "waiting for the session", l.Connect(t.Context()), locks.ErrUnavailable)
		})
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"})
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		waits.Wait()
		synctest.Wait()
		if n := f.count("open"); n != 1 {
			t.Errorf("%d sessions opened, want one: the Locker was closed meanwhile", n)
		}
		if opened, closed := f.count("open"), f.count("close"); opened != closed {
			t.Errorf("%d sessions opened, %d closed", opened, closed)
		}
	})
}

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		if _, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/a"}); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"user/c", "user/a", "user/b"} {
			take(t, other, k)
		}
		var got []string
		for info, err := range l.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
			if info.Key == "user/b" {
				break
			}
		}
		if strings.Join(got, " ") != "user/a user/b" {
			t.Errorf("got %v", got)
		}
		away := memlock.New()
		away.Stop()
		for _, err := range start(t, away, locks.Options{}).Inspect(t.Context(), "") {
			wantErr(t, "where no session can be opened", err, locks.ErrUnavailable)
		}
		lost := f.last
		f.on(only("list", func(_ context.Context, _ string, do func() error) error {
			if f.last == lost {
				return driver.ErrSessionEnded
			}
			return do()
		}))
		for _, err := range l.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Error(err)
			}
		}
		service.Stop()
		n := 0
		for _, err := range l.Inspect(t.Context(), "user/") {
			if n++; !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%v, want it to say that the service cannot be reached", err)
			}
		}
		if n != 1 {
			t.Errorf("%d elements, want the error", n)
		}
	})
}

// A list goes over pages, in key order, and asks once more after the last full one.
func TestInspectPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		var want []string
		var reqs []locks.Request
		for i := range 400 {
			want = append(want, fmt.Sprintf("user/%03d", i))
			reqs = append(reqs, locks.Request{Key: want[i]})
		}
		if _, err := other.TryAcquire(t.Context(), reqs...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for info, err := range l.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		if n := f.count("list"); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}

func TestForceReleaseErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, service := pair(t)
		lease := take(t, other, "user/a")
		if ok, err := l.ForceRelease(t.Context(), "user/a b", lease.Token()); ok || err == nil {
			t.Errorf("of a key that cannot be: %v, %v", ok, err)
		}
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		service.Expire(l.State().Session) // nothing was done in its name: it is asked again
		if ok, err := l.ForceRelease(t.Context(), "user/a", lease.Token()); !ok || err != nil {
			t.Errorf("after the session ended: %v, %v", ok, err)
		}
		service.Stop()
		ok, err := l.ForceRelease(t.Context(), "user/a", lease.Token())
		if ok || !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "user/a") {
			t.Errorf("while the service is away: %v, %v", ok, err)
		}
	})
}

// A key whose holder changes during an eviction stays with its next holder. A holder that finds that it was evicted
// before knows it, too.
func TestForceReleaseOfAnEarlierHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		theirs := take(t, other, "user/a")
		var mine *locks.Lease
		f.on(only("evict", func(_ context.Context, _ string, do func() error) error {
			err := do()
			mine = take(t, l, "user/a")
			return err
		}))
		if ok, err := l.ForceRelease(t.Context(), "user/a", theirs.Token()); !ok || err != nil {
			t.Fatalf("force release: %v, %v", ok, err)
		}
		f.on(nil)
		if err := mine.Check(); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		if ok, err := other.ForceRelease(t.Context(), "user/a", mine.Token()); !ok || err != nil {
			t.Fatalf("force release: %v, %v", ok, err)
		}
		if ok, err := l.ForceRelease(t.Context(), "user/a", mine.Token()); ok || err != nil {
			t.Errorf("once more: %v, %v", ok, err)
		}
		wantErr(t, "check", mine.Check(), locks.ErrForced)
	})
}
