package sqllock_test

import (
	"crypto/rand"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// polling begins the statement that looks for grants.
const polling = "SELECT 1, name"

// A session with many places behind a holder elsewhere sends one query after the other, with pauses; behind one of its own
// process none, until a look shows that another process has the key.
func TestPollsAreFew(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"the holder is elsewhere": true, "the holder is in the process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := servers.MySQL(t)
			p, through := edge(t, dsn)
			db := open(t, "mysql", dsn)
			here, there := sqllock.New(db, sqllock.MySQL, sqllock.Options{}), sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{})
			far := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{}).Apart(), time.Minute)
			if elsewhere {
				here.Apart()
				there.Apart()
			}
			a, b := session(t, here, time.Minute), session(t, there, time.Minute)
			take(t, a, "k", "l")
			var polls atomic.Int64
			p.Judge(func(c proxy.Command) proxy.Verdict {
				if strings.HasPrefix(c.Query, polling) {
					polls.Add(1)
				}
				return proxy.Pass
			})
			var places []driver.Place
			for _, key := range []string{"k", "l", "k", "l", "k"} {
				place := driver.Place{Acquisition: rand.Text(), Key: key}
				if r, err := b.Queue().Acquire(t.Context(), place.Acquisition, nil, []driver.Want{{Key: key}}); err != nil || !r[0].Queued {
					t.Fatal(r, err)
				}
				places = append(places, place)
			}
			if !elsewhere {
				look := func() {
					t.Helper()
					if r, err := b.Queue().Look(t.Context(), places); err != nil || !r[0].Queued {
						t.Fatal(r, err)
					}
				}
				look()
				if n := polls.Load(); n > 0 {
					t.Errorf("%d polls", n)
				}
				if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_leases2 SET session_id = ? WHERE session_id = ?`, far.ID(), a.ID()); err != nil {
					t.Fatal(err)
				}
				look()
			}
			began, first := time.Now(), polls.Load()
			await.Until(t, "polls", func() bool { return polls.Load() >= first+30 })
			if took := time.Since(began); took < 100*time.Millisecond {
				t.Errorf("30 polls in %v", took)
			}
		})
	}
}

// A session whose place is not the next one looks every 50 to 100 ms, however long it waits; that of the next one looks more often.
func TestPollsOfALaterPlaceAreFewer(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	take(t, session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}).Apart(), time.Minute), "k")
	waits := func() *atomic.Int64 {
		p, through := edge(t, dsn)
		s := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}).Apart(), time.Minute)
		polls := new(atomic.Int64)
		p.Judge(func(c proxy.Command) proxy.Verdict {
			if strings.HasPrefix(c.Query, polling) {
				polls.Add(1)
			}
			return proxy.Pass
		})
		wait(t, s, "k")
		return polls
	}
	next, _, third := waits(), waits(), waits()
	await.Until(t, "the third one polls at its slowest", func() bool { return third.Load() >= 8 })
	began, before, of := time.Now(), next.Load(), third.Load()
	await.Until(t, "polls of the next one", func() bool { return next.Load() >= before+40 })
	polls := third.Load() - of
	if took := time.Since(began); polls > 1+int64(took/(50*time.Millisecond)) || 3*polls > 2*40 {
		t.Errorf("the third one made %d polls in %v, and the next one 40", polls, took)
	}
}

// The key is released, which takes one statement, while another session is about to take the first place: that is granted, and
// does not wait behind nobody.
func TestAPlaceBehindARelease(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	a := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	held := take(t, a, "k")
	released := false
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if !released && strings.HasPrefix(c.Query, "UPDATE lockstep_lock_leases2 SET waits = 1") {
			released = true
			if err := a.Release(t.Context(), held); err != nil {
				t.Error(err)
			}
		}
		return proxy.Pass
	})
	r, err := b.Queue().Acquire(t.Context(), rand.Text(), nil, []driver.Want{{Key: "k"}})
	if err != nil || !released || r[0].Token <= held[0].Token {
		t.Errorf("%+v, %v: released %t; want a grant after %d", r, err, released, held[0].Token)
	}
}

// A look pulls in the session of the first place, which may have too much time since the clock was set back: nothing else would end that
// writer, which waits behind readers that stay.
func TestALookPullsInTheFirstPlace(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if !d.Caps().Shared {
			return
		}
		a, first, b := session(t, d, time.Minute), session(t, d, time.Minute), session(t, d, time.Minute)
		queue := func(s driver.Session, shared bool) (driver.Place, driver.Result) {
			t.Helper()
			place := driver.Place{Acquisition: rand.Text(), Key: "k"}
			r, err := s.Queue().Acquire(t.Context(), place.Acquisition, nil, []driver.Want{{Key: "k", Shared: shared}})
			if err != nil {
				t.Fatal(err)
			}
			return place, r[0]
		}
		_, held := queue(a, true)
		_, waits := queue(first, false)
		place, behind := queue(b, true)
		if held.Token == 0 || !waits.Queued || !behind.Queued {
			t.Fatal(held, waits, behind)
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_sessions2 SET expires_at = ? WHERE id = ?`, time.Now().Add(time.Hour).UnixMicro(), first.ID()); err != nil {
			t.Fatal(err)
		}
		r, err := b.Queue().Look(t.Context(), []driver.Place{place})
		if err != nil || !r[0].Queued {
			t.Fatalf("%+v, %v behind a live writer", r, err)
		}
		var expires int64
		if err := db.QueryRowContext(t.Context(), `SELECT expires_at FROM lockstep_lock_sessions2 WHERE id = ?`, first.ID()).Scan(&expires); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(time.UnixMicro(expires)); left > time.Minute+time.Second {
			t.Errorf("the writer has %v left", left)
		}
	})
}
