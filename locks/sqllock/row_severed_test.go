package sqllock_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// An answer that is lost with its connection may have been a grant, which the server keeps until it notices. The next try ends that
// connection, since no other session holds the key.
func TestRowModeALostGrantKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	granted := func(s driver.Session) (driver.Result, error) {
		select {
		case g := <-s.Queue().Granted():
			return driver.Result{Token: g.Token}, nil
		case <-time.After(10 * time.Second):
			return driver.Result{}, nil
		}
	}
	for name, ask := range map[string]func(s driver.Session) (driver.Result, error){
		"try": func(s driver.Session) (driver.Result, error) {
			r, err := s.TryAcquire(t.Context(), "2", []driver.Want{{Key: "k"}})
			return append(r, driver.Result{})[0], err
		},
		"in turn": func(s driver.Session) (driver.Result, error) {
			r, err := s.Queue().Acquire(t.Context(), "2", nil, []driver.Want{{Key: "k"}})
			if err != nil || r[0].Token > 0 {
				return append(r, driver.Result{})[0], err
			}
			return granted(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.MySQL(t)
			var lose atomic.Bool
			a := session(t, sqllock.New(severable(t, server, func(statement []byte, c *severedConn) {
				if bytes.Contains(statement, granting) && lose.CompareAndSwap(true, false) {
					c.sever()
				}
			}), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
			if err := a.Release(t.Context(), take(t, a, "k")); err != nil { // it keeps the connection, which may be an old one
				t.Fatal(err)
			}
			lose.Store(true)
			if r, err := ask(a); err == nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrSessionEnded) {
				t.Fatalf("%+v, %v: want an error that leaves open what was granted", r, err)
			}
			r, err := ask(a)
			if err != nil || r.Token == 0 {
				t.Fatalf("%+v, %v: want it granted", r, err)
			}
			if lose.Load() {
				t.Error("no answer was lost")
			}
			lockstest.Holds(t, a, driver.Held{Key: "k", Token: r.Token}, true)
		})
	}
}

// What waits and is granted on a connection that is lost with the answer ends that connection, and gets the key.
func TestRowModeALostGrantOfAWait(t *testing.T) {
	t.Parallel()
	server := servers.MySQL(t)
	var lose atomic.Bool
	a := session(t, sqllock.New(severable(t, server, func(statement []byte, c *severedConn) {
		if bytes.Contains(statement, granting) && !bytes.Contains(statement, []byte("SKIP LOCKED")) && lose.CompareAndSwap(true, false) {
			c.sever()
		}
	}), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", server), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	held := take(t, b, "k")
	lose.Store(true)
	if r, err := a.Queue().Acquire(t.Context(), "1", nil, []driver.Want{{Key: "k"}}); err != nil || !r[0].Queued {
		t.Fatalf("%+v, %v", r, err)
	}
	await.Until(t, "the request waits at the server", func() bool { return !lose.Load() })
	if err := b.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	select {
	case g := <-a.Queue().Granted():
		lockstest.Holds(t, a, driver.Held{Key: "k", Token: g.Token}, true)
	case <-time.After(20 * time.Second):
		t.Error("it was not granted")
	}
}

// An error after something was sent does not say that nothing was, also where the connection cannot be replaced; and Abandon frees what the server
// granted.
func TestRowModeALostGrantIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(s driver.Session) error{
		"try": func(s driver.Session) error {
			_, err := s.TryAcquire(t.Context(), "2", []driver.Want{{Key: "k"}})
			return err
		},
		"in turn": func(s driver.Session) error {
			_, err := s.Queue().Acquire(t.Context(), "2", nil, []driver.Want{{Key: "k"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.MySQL(t)
			var lose, away atomic.Bool
			db := severable(t, server, func(statement []byte, c *severedConn) {
				if bytes.Contains(statement, granting) && lose.CompareAndSwap(true, false) {
					c.sever()
					away.Store(true)
				}
			}, &away)
			a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
			b := session(t, sqllock.New(open(t, "mysql", server), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
			if err := a.Release(t.Context(), take(t, a, "k")); err != nil {
				t.Fatal(err)
			}
			lose.Store(true)
			if err := ask(a); err == nil || errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%v: want an error that leaves open what was granted", err)
			}
			if busy := lockstest.Acquire(t, b, "3", "k")[0]; busy.Holder == nil || busy.Holder.Session != a.ID() {
				t.Fatalf("%+v: the server has granted it to %s", busy, a.ID())
			}
			away.Store(false)
			if err := a.Abandon(t.Context(), "2", []string{"k"}); err != nil {
				t.Fatal(err)
			}
			if got := lockstest.Acquire(t, b, "4", "k")[0]; got.Token == 0 {
				t.Errorf("%+v: it was abandoned", got)
			}
		})
	}
}

// A session whose connections are all gone says of a request without an answer that it may have been granted, and that it has ended when it is
// asked again.
func TestRowModeALostGrantOfASessionThatEnds(t *testing.T) {
	t.Parallel()
	server := servers.MySQL(t)
	var mu sync.Mutex
	var all []*severedConn
	var lose atomic.Bool
	a := session(t, sqllock.New(severable(t, server, func(statement []byte, c *severedConn) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
		if bytes.Contains(statement, granting) && lose.CompareAndSwap(true, false) {
			c.sever()
			for _, other := range all {
				if other != c { // the server sees those go
					_ = other.Conn.Close()
				}
			}
		}
	}), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	if err := a.Release(t.Context(), take(t, a, "k")); err != nil {
		t.Fatal(err)
	}
	lose.Store(true)
	r, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}})
	if err == nil || errors.Is(err, driver.ErrSessionEnded) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%+v, %v: want an error that leaves open what was granted", r, err)
	}
	await.Until(t, "the session has ended", func() bool {
		_, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}})
		return errors.Is(err, driver.ErrSessionEnded)
	})
}

// A session that ends while a key is granted to it does not say that nothing was granted: the server may keep the key until it
// notices.
func TestRowModeAGrantToASessionThatEnds(t *testing.T) {
	t.Parallel()
	server := servers.MySQL(t)
	var mu sync.Mutex
	var anchor *severedConn
	var a driver.Session
	var ends atomic.Bool
	a = session(t, sqllock.New(severable(t, server, func(statement []byte, c *severedConn) {
		mu.Lock()
		if bytes.Contains(statement, []byte("INSERT INTO lockstep_lock_anchors")) {
			anchor = c
		}
		mu.Unlock()
		if bytes.Contains(statement, granting) && ends.CompareAndSwap(true, false) {
			anchor.sever()
			if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
				t.Errorf("renew: %v", err)
			}
		}
	}), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	b := session(t, sqllock.New(open(t, "mysql", server), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	if err := b.Release(t.Context(), take(t, b, "k")); err != nil { // the key has a row
		t.Fatal(err)
	}
	ends.Store(true)
	r, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}})
	if err == nil || errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("%+v, %v: want an error that leaves open what was granted", r, err)
	}
	if _, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}}); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("again: %v, want ErrSessionEnded", err)
	}
}

// A connection for a key that is lost while it is opened, or prepared, is replaced: nothing was asked for on it.
func TestRowModeAConnectionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for name, met := range map[string]func(packet []byte) bool{
		"as it is opened":   func([]byte) bool { return true },
		"as it is prepared": func(packet []byte) bool { return bytes.Contains(packet, []byte("wait_timeout")) },
	} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int32
			a := session(t, sqllock.New(severable(t, servers.MySQL(t), func(packet []byte, c *severedConn) {
				if met(packet) && left.Add(-1) >= 0 {
					c.sever()
				}
			}), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
			left.Store(2)
			held := take(t, a, "k")
			if left.Load() > 0 {
				t.Error("no connection was lost")
			}
			lockstest.Holds(t, a, held[0], true)
		})
	}
}

var granting = []byte("INSERT INTO lockstep_lock_holds (namespace, name, session_id")

// severable is a handle whose connections can be severed; sent is called before each packet is. While away, if any, is true there are no new ones.
func severable(t *testing.T, dsn string, sent func(packet []byte, c *severedConn), away ...*atomic.Bool) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.InterpolateParams, c.MaxAllowedPacket = true, 1<<20 // so that whole statements are seen
	c.CheckConnLiveness = false
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if len(away) > 0 && away[0].Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("cut off by the test")}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &severedConn{Conn: conn, sent: sent}, nil
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// severedConn is a connection that the client may lose without the server noticing.
type severedConn struct {
	net.Conn
	sent    func(packet []byte, c *severedConn)
	severed atomic.Bool
}

func (c *severedConn) sever() { c.severed.Store(true) }

func (c *severedConn) Write(packet []byte) (int, error) {
	c.sent(packet, c)
	return c.Conn.Write(packet)
}

// Read loses the answer that was sent.
func (c *severedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if c.severed.Load() {
		return 0, io.EOF
	}
	return n, err
}

// Close leaves the server with the connection if it is severed.
func (c *severedConn) Close() error {
	if c.severed.Load() {
		return nil
	}
	return c.Conn.Close()
}
