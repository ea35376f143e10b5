package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
)

// wired is a driver whose client can be cut off.
type wired struct {
	*sqllock.Driver

	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

// onMySQL is a harness that gives each client connections of its own, which can be cut.
func onMySQL(t *testing.T, dsn string, o sqllock.Options) lockstest.Harness {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return lockstest.Harness{
		Driver: func(t *testing.T) driver.Driver {
			w, c := &wired{}, c.Clone()
			c.DialFunc = w.dial
			connector, err := mysql.NewConnector(c)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			db.SetMaxIdleConns(16)
			t.Cleanup(func() { db.Close() })
			w.Driver = sqllock.New(db, sqllock.MySQL, o)
			return w
		},
		Disconnect: func(_ *testing.T, d driver.Driver) { d.(*wired).cut(true) },
		Reconnect:  func(_ *testing.T, d driver.Driver) { d.(*wired).cut(false) },
	}
}

func (w *wired) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: errors.New("cut off by the test")}
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

func (w *wired) cut(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}
