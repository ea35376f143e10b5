package sqllock_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A call whose context has ended before it asked a connection says nothing about that: the key stays held, and no renewal calls it
// lost.
func TestRowModeACallThatHasEndedLosesNothing(t *testing.T) {
	t.Parallel()
	d := sqllock.New(open(t, "mysql", servers.MySQL(t)), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(s driver.Session, held driver.Held) error{
		"asked again": func(s driver.Session, _ driver.Held) error {
			_, err := s.TryAcquire(ended, "1", []driver.Want{{Key: "asked again"}})
			return err
		},
		"looked at": func(s driver.Session, _ driver.Held) error {
			_, err := s.Queue().Look(ended, []driver.Place{{Acquisition: "1", Key: "looked at"}})
			return err
		},
		"renewed": func(s driver.Session, _ driver.Held) error { return lockstest.Renew(ended, s) },
		"checked": func(s driver.Session, held driver.Held) error {
			_, err := s.Check(ended, []driver.Held{held})
			return err
		},
	} {
		s := session(t, d, time.Minute)
		got := lockstest.Acquire(t, s, "1", name)
		held := driver.Held{Key: name, Token: got[0].Token}
		if err := call(s, held); err == nil {
			t.Errorf("%s: no error", name)
		}
		lockstest.Holds(t, s, held, true)
		renew(t, s, []driver.Held{held}, false)
	}
}

// A call that ends while it waits for the answer of a connection costs that connection, which the driver closes: the key is free, and the
// next renewal says that it is gone.
func TestRowModeACallThatEndsMidwayLosesItsKey(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	db := open(t, "mysql", through)
	a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	held := driver.Held{Key: "k", Token: lockstest.Acquire(t, a, "1", "k")[0].Token}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if c.Query == "" { // a ping
			cancel()
			return proxy.SwallowReply
		}
		return proxy.Pass
	})
	if r, err := a.Queue().Look(ctx, []driver.Place{{Acquisition: "1", Key: "k"}}); err == nil {
		t.Errorf("%+v, and no error", r)
	}
	p.Judge(nil)
	if n := db.Stats().InUse; n != 1 {
		t.Errorf("%d connections are in use, want that of the session alone", n)
	}
	await.Until(t, "the key is free", func() bool { return lockstest.Acquire(t, b, "2", "k")[0].Token > held.Token })
	lockstest.Holds(t, a, held, false)
	renew(t, a, nil, true)
}
