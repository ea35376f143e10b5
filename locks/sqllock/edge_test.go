package sqllock_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// edge is a way to the server of dsn that can lose single statements. It heals when the test ends.
func edge(t *testing.T, dsn string) (p *proxy.Proxy, through string) {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = proxy.ListenMySQL(c.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	c.Addr = p.Addr()
	c.InterpolateParams = true // so that whole statements are seen
	return p, c.FormatDSN()
}

// A call without an answer to COMMIT ends with its context, and does not block the next
// one, also on a handle that would wait for ever. What it did is found under its id.
func TestTheAnswerToCommitIsLost(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	s := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if c.Is("COMMIT") {
			return proxy.SwallowReply
		}
		return proxy.Pass
	})
	ctx, cancel := contextFor(t, 500*time.Millisecond)
	defer cancel()
	type answer struct {
		got []driver.Result
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}})
		answers <- answer{got, err}
	}()
	select {
	case a := <-answers:
		if a.err == nil {
			t.Fatalf("%+v: want an error, since the outcome is unknown", a.got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call goes on long after its context has ended")
	}
	p.Judge(nil)
	ctx, cancel = contextFor(t, 10*time.Second)
	defer cancel()
	got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}})
	if err != nil || got[0].Token == 0 {
		t.Errorf("%+v, %v: want what was granted", got, err)
	}
	if got, err := s.TryAcquire(ctx, "2", []driver.Want{{Key: "l"}}); err != nil || got[0].Token == 0 {
		t.Errorf("%+v, %v: want the next key", got, err)
	}
}

// While one session frees and takes the key of an expired one, another asks for it: one of them gets it, and keeps it.
func TestReapingTakesNothingFromTheNextHolder(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	db := opened(t, dsn)
	direct := sqllock.New(db, sqllock.MySQL, sqllock.Options{})
	over, next := session(t, direct, time.Minute), session(t, direct, time.Minute)
	good := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	take(t, over, "k")
	expire(db)(t, over)
	var asking sync.WaitGroup
	var other []driver.Result
	var once sync.Once
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if strings.HasPrefix(c.Query, "UPDATE lockstep_lock_leases2 SET since") {
			once.Do(func() {
				asking.Go(func() { other = lockstest.Acquire(t, next, "1", "k") })
				running(t, db, "UPDATE lockstep_lock_marks%") // it waits for its turn
			})
		}
		return proxy.Pass
	})
	got := lockstest.Acquire(t, good, "2", "k")
	asking.Wait()
	if got[0].Token == 0 || len(other) != 1 || other[0].Holder == nil || other[0].Holder.Session != good.ID() {
		t.Fatalf("%+v and %+v: want the first granted, and the other one busy", got, other)
	}
	if still, err := good.Check(t.Context(), []driver.Held{{Key: "k", Token: got[0].Token}}); err != nil || !still[0] {
		t.Errorf("the next holder: %v, %v", still, err)
	}
}

// A session that freezes as it deletes the row of a key blocks others for about a second, however long its ttl is and
// however its handle was opened.
func TestAStalledDeletionBlocksNoSession(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	d := func(db *sql.DB) driver.Driver {
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	}
	a := session(t, d(open(t, "mysql", through)), time.Minute)
	b, c := session(t, d(opened(t, dsn)), time.Minute), session(t, d(opened(t, dsn)), time.Minute)
	held := take(t, a, "k")
	var mu sync.Mutex
	deleting, frozen, thaw := map[int]bool{}, make(chan struct{}), make(chan struct{})
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		stalls := c.Is("COMMIT") && deleting[c.Conn]
		deleting[c.Conn] = strings.HasPrefix(c.Query, "DELETE t FROM")
		mu.Unlock()
		if stalls {
			close(frozen)
			<-thaw
		}
		return proxy.Pass
	})
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	var closing, others sync.WaitGroup
	defer closing.Wait()
	defer close(thaw)
	closing.Go(func() { _ = a.Close(t.Context()) })
	<-frozen
	ctx, cancel := contextFor(t, 20*time.Second)
	defer cancel()
	for s, key := range map[driver.Session]string{b: "k", c: "l"} {
		others.Go(func() {
			if got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: key}}); err != nil || got[0].Token == 0 {
				t.Errorf("%s: %+v, %v", key, got, err)
			}
		})
	}
	others.Wait()
}

// A key whose connection did not answer a renewal was given up, and the server may grant it to others at
// any time: it is not held any more, also while its row still says so, or cannot be read.
func TestRowModeKeyThatWasGivenUp(t *testing.T) {
	t.Parallel()
	p, dsn := edge(t, servers.MySQL(t))
	db := opened(t, dsn)
	a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	insertRow(t, db)
	over := make(chan struct{})
	defer close(over)
	var mu sync.Mutex
	mute, blind := 0, false
	p.Judge(func(c proxy.Command) proxy.Verdict {
		mu.Lock()
		muted, unread := c.Conn == mute, blind && strings.HasPrefix(c.Query, "SELECT name, token")
		if mute == 0 && strings.HasPrefix(c.Query, "INSERT INTO lockstep_lock_holds") && strings.Contains(c.Query, "_binary'k'") {
			mute = c.Conn // from its next command on
		}
		mu.Unlock()
		switch {
		case muted:
			<-over
		case unread:
			return proxy.LoseRequest
		}
		return proxy.Pass
	})
	var held []driver.Held
	for i, r := range lockstest.Acquire(t, a, "1", "k", "l") {
		held = append(held, driver.Held{Key: []string{"k", "l"}[i], Token: r.Token})
	}
	ctx, cancel := contextFor(t, 500*time.Millisecond)
	defer cancel()
	if err := lockstest.Renew(ctx, a); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if still, err := a.Check(t.Context(), held); err != nil || still[0] || !still[1] {
			t.Errorf("%s: %v, %v; want l alone", when, still, err)
		}
	}
	check("its row is there")
	if got, err := a.TryAcquire(t.Context(), "2", []driver.Want{{Key: "k"}}); err != nil || got[0].Holder == nil {
		t.Errorf("asked for by another acquisition: %+v, %v; want it busy", got, err)
	}
	// The acquisition itself may end its connection.
	if got, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}}); err != nil || got[0].Token <= held[0].Token {
		t.Errorf("asked for again: %+v, %v; want it granted, under a larger token than %d", got, err, held[0].Token)
	}
	mu.Lock()
	blind = true
	mu.Unlock()
	check("its row cannot be read")
}

// A release whose ROLLBACK does not get through is no release yet: the server keeps the lock until it sees that the connection is
// closed. It is an unknown one, and is done once it is repeated.
func TestRowModeReleaseThatDoesNotGetThrough(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	far := session(t, sqllock.New(opened(t, through), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	near := session(t, sqllock.New(opened(t, dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	held := take(t, far, "k")
	var once sync.Once
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if c.Query == "ROLLBACK" {
			once.Do(func() { <-ended })
		}
		return proxy.Pass
	})
	ctx, cancel := contextFor(t, time.Second)
	defer cancel()
	if err := far.Release(ctx, held); err == nil || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v: want an error, since the outcome is unknown", err)
	}
	if err := far.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	take(t, near, "k")
}
