package sqllock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// wait takes a place for a key that is held.
func wait(t *testing.T, s driver.Session, key string) driver.Place {
	t.Helper()
	place := driver.Place{Acquisition: rand.Text(), Key: key}
	got, err := s.Queue().Acquire(t.Context(), place.Acquisition, nil, lockstest.Wants(key))
	if err != nil || !got[0].Queued {
		t.Fatalf("%+v, %v: want it queued", got, err)
	}
	return place
}

// granted waits for the grant of a place.
func granted(t *testing.T, s driver.Session, place driver.Place) driver.Held {
	t.Helper()
	select {
	case g := <-s.Queue().Granted():
		if g.Place != place || g.Token == 0 {
			t.Fatalf("%+v was granted, want %+v", g, place)
		}
		return driver.Held{Key: g.Key, Token: g.Token}
	case <-time.After(10 * time.Second):
		t.Fatalf("no grant of %+v", place)
		return driver.Held{}
	}
}

// waiters are the connections that wait for a row at the server.
func waiters(t *testing.T, db *sql.DB) (connections []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT INTO lockstep_lock_holds%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		connections = append(connections, id)
	}
	return connections
}

// A place outlives the time that one request waits at the server, and each connection that it loses: it is granted once.
func TestRowModePlaceOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held, place := take(t, a, "k"), wait(t, b, "k")
	time.Sleep(2500 * time.Millisecond) // longer than a request waits
	last := int64(0)
	for range 2 {
		await.Until(t, "it waits, on another connection", func() bool {
			now := waiters(t, db)
			if len(now) != 1 || now[0] == last {
				return false
			}
			last = now[0]
			return true
		})
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("KILL CONNECTION %d", last)); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "it waits again", func() bool { now := waiters(t, db); return len(now) == 1 && now[0] != last })
	if got, err := b.Queue().Look(t.Context(), []driver.Place{place}); err != nil || !got[0].Queued || got[0].Holder.Token != held[0].Token {
		t.Errorf("%+v, %v: want it queued behind %d", got, err, held[0].Token)
	}
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	next := granted(t, b, place)
	if next.Token <= held[0].Token {
		t.Errorf("token %d after %d", next.Token, held[0].Token)
	}
	if err := b.Release(t.Context(), []driver.Held{next}); err != nil {
		t.Fatal(err)
	}
	take(t, a, "k")
	if evicted, err := b.Renew(t.Context(), nil); err != nil || evicted {
		t.Errorf("renew: %t, %v; nothing that it held was lost", evicted, err)
	}
}

// A place that is asked for again while its request waits at the server is held with the meta of the last request.
func TestRowModePlaceIsAskedForAgain(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held, place := take(t, a, "k"), wait(t, b, "k")
	await.Until(t, "its request waits at the server", func() bool { return len(waiters(t, db)) == 1 })
	again, err := b.Queue().Acquire(t.Context(), place.Acquisition, nil, []driver.Want{{Key: "k", Meta: "anew"}})
	if err != nil || !again[0].Queued {
		t.Fatalf("%+v, %v: want it queued", again, err)
	}
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	next := granted(t, b, place)
	if infos, err := a.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Token != next.Token || infos[0].Meta != "anew" {
		t.Errorf("%+v, %v: want token %d alone, with the meta of the last request", infos, err, next.Token)
	}
}

// What was given up does not wait at the server for longer than a request does, and holds nothing.
func TestRowModeAbandonedPlace(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held := take(t, a, "k")
	before := db.Stats().InUse
	for range 3 {
		place := wait(t, b, "k")
		if err := b.Abandon(t.Context(), place.Acquisition, []string{"k"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Stats().InUse; n > before {
		t.Errorf("%d connections are kept, want %d", n, before)
	}
	await.Until(t, "nothing waits at the server", func() bool { return len(waiters(t, db)) == 0 })
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	take(t, a, "k")
}

// A connection that was lost is reported by one renewal, and by none before and after.
func TestRowModeRenewalSaysWhatWasLost(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held := take(t, a, "j", "k")
	for i, want := range []bool{false, true, false} {
		if want {
			if ok, err := b.Evict(t.Context(), "k", held[1].Token); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		if evicted, err := a.Renew(t.Context(), held[:1]); err != nil || evicted != want {
			t.Errorf("renewal %d: %t, %v; want %t", i, evicted, err, want)
		}
	}
}

// A key that is free and was used before is taken by one statement, and released by one, on a connection that is there.
func TestRowModePairIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	s := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	pair := func() {
		if err := s.Release(t.Context(), take(t, s, "k")); err != nil {
			t.Fatal(err)
		}
	}
	pair()
	var mu sync.Mutex
	var sent []string
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, c.Query)
		return proxy.Pass
	})
	pair()
	p.Judge(nil)
	if len(sent) != 2 {
		t.Errorf("sent: %q", sent)
	}
}

// A renewal sends one ping on each connection of the session, and no statement.
func TestRowModeRenewalIsOnePingAConnection(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	s := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	held := take(t, s, "a", "b", "c")
	for range 2 { // connections that hold nothing are closed by then
		renew(t, s, held, false)
	}
	var mu sync.Mutex
	pings := map[int]int{} // by connection
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if c.Query != "" {
			t.Errorf("sent: %q", c.Query)
		}
		pings[c.Conn]++
		return proxy.Pass
	})
	renew(t, s, held, false)
	p.Judge(nil)
	if len(pings) != len(held)+1 { // one stands for the session
		t.Errorf("pings by connection: %v; want one of each key, and one of the session", pings)
	}
	for conn, n := range pings {
		if n != 1 {
			t.Errorf("%d pings on connection %d, want 1", n, conn)
		}
	}
}

// The row of a key that was released is deleted once it has been idle for a while, by renewals; that of a key that is held or
// waited for stays.
func TestRowModeIdleRowsAreDeleted(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	if err := a.Release(t.Context(), take(t, a, "i", "j")); err != nil {
		t.Fatal(err)
	}
	held, place := take(t, a, "k"), wait(t, b, "k")
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if n := rowsIn(t, db); n != 3 {
		t.Errorf("%d rows; want those that were used a moment ago", n)
	}
	await.Until(t, "one row is left", func() bool {
		for _, s := range []driver.Session{a, b} {
			if err := lockstest.Renew(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		return rowsIn(t, db) == 1
	})
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	granted(t, b, place)
}

// Connections that hold nothing are kept for the next key while the handle has enough others, and closed when they were not used
// between two renewals.
func TestRowModeSpareConnections(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	for limit, want := range map[int]int{0: 4, 4: 2} { // one stands for the session
		db := open(t, "mysql", dsn)
		s := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
		keys := []string{"a", "b", "c"}
		if limit > 0 {
			db.SetMaxOpenConns(limit)
			keys = keys[:2]
		}
		for _, held := range take(t, s, keys...) { // one by one: of two at once each may count the other's connection
			if err := s.Release(t.Context(), []driver.Held{held}); err != nil {
				t.Fatal(err)
			}
		}
		if n := db.Stats().InUse; n != want {
			t.Errorf("limit %d: %d connections are kept, want %d", limit, n, want)
		}
		for range 2 {
			if err := lockstest.Renew(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if n := db.Stats().InUse; n != 1 {
			t.Errorf("limit %d: %d connections are kept after two renewals, want 1", limit, n)
		}
	}
}

// Clients that wait in one Locker, and in many, count one by one.
func TestRowModeCounter(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	for _, of := range [][2]int{{1, 200}, {20, 10}} {
		var mu sync.Mutex // for the race detector
		count := 0
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		for range of[0] {
			l, err := locks.New(sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), locks.Options{Namespace: fmt.Sprint(of[0])})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := l.Close(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			}()
			for range of[1] {
				all.Go(func() {
					err := locks.Do(ctx, l, locks.Request{Key: "a"}, func(context.Context, locks.Token) error {
						mu.Lock()
						was := count
						mu.Unlock()
						time.Sleep(10 * time.Microsecond)
						mu.Lock()
						defer mu.Unlock()
						count = was + 1
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if want := of[0] * of[1]; count != want {
			t.Errorf("%d Lockers with %d clients counted %d, want %d", of[0], of[1], count, want)
		}
	}
}
