package store_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// lines are a client's ends of its connections.
type lines struct {
	mu  sync.Mutex
	all []*line
}

type line struct {
	net.Conn
	waits atomic.Bool // for bytes
}

func (l *line) Read(b []byte) (int, error) {
	l.waits.Store(true)
	defer l.waits.Store(false)
	return l.Conn.Read(b)
}

// network is the name of one for a DSN, whose connections are among the lines.
func (l *lines) network(t *testing.T) string {
	t.Helper()
	name := "lines of " + t.Name()
	mysql.RegisterDialContext(name, func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		one := &line{Conn: conn}
		l.all = append(l.all, one)
		return one, nil
	})
	t.Cleanup(func() { mysql.DeregisterDialContext(name) })
	return name
}

// giveUp ends the wait for an answer as a read timeout does, and reports whether a call waited for one.
// The driver sets its own deadline before it reads, so this one is the last.
func (l *lines) giveUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one.waits.Load() {
			_ = one.SetReadDeadline(time.Now())
			return true
		}
	}
	return false
}
