package locks_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// A key is one with "user/" in front or without, however it is asked for; the scheduler's keys are others.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		longest := strings.Repeat("k", 195)
		for _, key := range []string{"a", "sys", "system/a", "/", "user", "user/user/a", longest} {
			lease := take(t, l, key)
			full := "user/" + strings.TrimPrefix(key, "user/")
			if lease.Key() != full {
				t.Errorf("%s is held as %s, want %s", key, lease.Key(), full)
			}
			wantBusy(t, other, key)
			wantBusy(t, other, full)
			if ok, err := other.ForceRelease(t.Context(), key, lease.Token()); !ok || err != nil {
				t.Errorf("force release of %s: %v, %v", key, ok, err)
			}
		}
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "b"}, locks.Request{Key: "user/b"}); said(err) != "locks: acquire: key user/b: asked for twice" {
			t.Errorf("one key twice: %v", err)
		}
		requests := []locks.Request{{Key: "c"}}
		waited, err := l.Acquire(t.Context(), requests...)
		if err != nil || waited[0].Key() != "user/c" || requests[0].Key != "c" {
			t.Errorf("Acquire: %v, %v; the request is %v now", waited, err, requests)
		}
		for _, do := range []func() error{
			func() error { _, err := l.TryAcquire(t.Context(), locks.Request{Key: "sys/try"}); return err },
			func() error { _, err := l.Acquire(t.Context(), locks.Request{Key: "sys/wait"}); return err },
			func() error { return locks.Do(t.Context(), l, locks.Request{Key: "sys/do"}, nil) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "keys that start with sys/ are the scheduler's") {
				t.Errorf("a key of the scheduler: %v", err)
			}
		}
		own, err := l.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/a"}, locks.Request{Key: "d"})
		if err != nil || own[0].Lease == nil || own[0].Lease.Key() != "sys/a" || own[1].Lease.Key() != "user/d" {
			t.Fatalf("the scheduler's own: %+v, %v", own, err)
		}
		if ok, err := other.ForceRelease(t.Context(), "sys/a", own[0].Lease.Token()); !ok || err != nil {
			t.Errorf("force release of a key of the scheduler: %v, %v", ok, err)
		}
	})
}
