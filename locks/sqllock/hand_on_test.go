package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// handingOn begins the statement that makes a holding the next one.
const handingOn = "UPDATE lockstep_lock_leases2 SET token"

// next releases a holding and asks for its key again under an acquisition.
func next(t *testing.T, s driver.Session, acquisition string, held []driver.Held) []driver.Held {
	t.Helper()
	r, err := s.Queue().Acquire(t.Context(), acquisition, held, []driver.Want{{Key: held[0].Key}})
	if err != nil || r[0].Token <= held[0].Token {
		t.Fatalf("%+v, %v: want a token after %d", r, err, held[0].Token)
	}
	return []driver.Held{{Key: held[0].Key, Token: r[0].Token}}
}

// Each of the many acquisitions of a session that follow each other has a larger token, and so has the session that comes after
// them, though the clock of the database stands behind all of them.
func TestTokensGrowFromOneAcquisitionToTheNext(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if d.Caps().Name == "mysql-row" {
			return // it asks anew
		}
		a, b := session(t, d, time.Minute), session(t, d, time.Minute)
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_marks SET token = ?`, time.Now().Add(time.Hour).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		held := take(t, a, "k")
		for range 520 { // more than are minted at once
			held = next(t, a, "of a", held)
			held = next(t, a, "of a, too", held)
		}
		if err := a.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		if other := take(t, b, "k"); other[0].Token <= held[0].Token {
			t.Errorf("token %d of the next session, after %d", other[0].Token, held[0].Token)
		}
	})
}

// A request that arrives after its acquisition was abandoned changes nothing: the key is free.
func TestARequestThatHandsOnComesLate(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	a := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	held := next(t, a, "1", take(t, a, "k"))
	arrives, arrived := make(chan struct{}), make(chan struct{})
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if strings.HasPrefix(c.Query, handingOn) {
			<-arrives
			close(arrived)
		}
		return proxy.Pass
	})
	ctx, cancel := contextFor(t, 500*time.Millisecond)
	defer cancel()
	if r, err := a.Queue().Acquire(ctx, "2", held, []driver.Want{{Key: "k"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%+v, %v: want no answer", r, err)
	}
	if err := a.Abandon(t.Context(), "2", []string{"k"}); err != nil {
		t.Fatal(err)
	}
	close(arrives)
	<-arrived
	other := take(t, b, "k")
	if infos, err := b.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Token != other[0].Token {
		t.Errorf("%+v, %v: want token %d alone", infos, err, other[0].Token)
	}
}

// A request whose answer was lost has been carried out: it is found under its acquisition, and ended by Abandon.
func TestTheAnswerToARequestThatHandsOnIsLost(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(t *testing.T, a driver.Session, held []driver.Held){
		"it is asked for again": func(t *testing.T, a driver.Session, held []driver.Held) {
			_ = a.Release(t.Context(), next(t, a, "2", held))
		},
		"it is abandoned": func(t *testing.T, a driver.Session, _ []driver.Held) {
			if err := a.Abandon(t.Context(), "2", []string{"k"}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := servers.MySQL(t)
			p, through := edge(t, dsn)
			a := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
			b := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
			held := next(t, a, "1", take(t, a, "k"))
			p.Judge(func(c proxy.Command) proxy.Verdict {
				if strings.HasPrefix(c.Query, handingOn) {
					return proxy.SwallowReply
				}
				return proxy.Pass
			})
			ctx, cancel := contextFor(t, 500*time.Millisecond)
			defer cancel()
			if r, err := a.Queue().Acquire(ctx, "2", held, []driver.Want{{Key: "k"}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%+v, %v: want no answer", r, err)
			}
			p.Judge(func(proxy.Command) proxy.Verdict { return proxy.Pass })
			settle(t, a, held)
			if infos, err := b.List(t.Context(), "", "", 10); err != nil || len(infos) != 0 {
				t.Errorf("%+v, %v: want nothing held", infos, err)
			}
			take(t, b, "k")
		})
	}
}

// A key is evicted while it is handed on: the token that was to be evicted holds nothing any more, and the next one does.
func TestAnEvictionMeetsARequestThatHandsOn(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	db := open(t, "mysql", dsn)
	a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	held := next(t, a, "1", take(t, a, "k"))
	handed := false
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if !handed && strings.HasPrefix(c.Query, "DELETE FROM lockstep_lock_leases2") {
			handed = true
			held = next(t, a, "2", held)
		}
		return proxy.Pass
	})
	if freed, err := b.Evict(t.Context(), "k", held[0].Token); err != nil || freed {
		t.Errorf("%t, %v: that token holds nothing any more", freed, err)
	}
	if still, err := a.Check(t.Context(), held); err != nil || !handed || !still[0] {
		t.Errorf("%v, %v, handed on %t: want it held", still, err, handed)
	}
}
