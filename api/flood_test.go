package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// backlog is a listener with a queue of connections.
type backlog struct {
	net.Listener
	waiting chan net.Conn
}

func (b *backlog) Accept() (net.Conn, error) {
	if conn, ok := <-b.waiting; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (b *backlog) Close() error { return nil }

// connect queues a connection, and returns the client's end.
func (b *backlog) connect(from string) net.Conn {
	server, there := net.Pipe()
	b.waiting <- fakeAddressConn{server, &net.TCPAddr{IP: net.ParseIP(from)}}
	return there
}

// flood is a server of 32 connections with many silent anonymous clients that reconnect when they are closed.
func flood(t *testing.T, anonymous int, server func(int) string, pause time.Duration, operator func(l *connections, b *backlog)) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{waiting: make(chan net.Conn, 2*anonymous)}
		l := newConnections(b, ServeOptions{MaxConnections: 32})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					for line := make([]byte, 8); ; {
						n, err := c.Read(line)
						if err != nil {
							break
						}
						if string(line[:n]) == "token" {
							authenticate(withConnection(t.Context(), c), "operator")
							_, _ = io.WriteString(c, "welcome")
						}
					}
					_ = c.Close()
				})
			}
		})
		var crowd sync.WaitGroup
		over := make(chan struct{})
		for i := range anonymous {
			crowd.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					conn := b.connect(server(i))
					closed := make(chan struct{})
					all.Go(func() {
						_, _ = conn.Read(make([]byte, 1))
						close(closed)
					})
					select {
					case <-closed:
					case <-over:
						_ = conn.Close()
						<-closed
					}
					if pause > 0 {
						time.Sleep(pause)
					}
				}
			})
		}
		time.Sleep(3 * time.Second)
		operator(l, b)
		close(over)
		crowd.Wait()
		_ = l.Close()
		close(b.waiting)
		for conn := range b.waiting {
			_ = conn.Close()
		}
		l.mu.Lock()
		var left []*connection
		for c := range l.all {
			left = append(left, c)
		}
		l.mu.Unlock()
		for _, c := range left {
			_ = c.Close()
		}
		all.Wait()
		if len(l.all)+len(l.anonymous)+len(l.from)+len(l.of) != 0 {
			t.Errorf("left are %d, %v, %v, %v", len(l.all), l.anonymous, l.from, l.of)
		}
	})
}

// TestSilentFlood: while 300 silent clients of one address reconnect at once when closed, a client with a token is
// accepted within about a second, from that address and from others, also if it sends slowly: a connection that is
// still sending is not evicted.
func TestSilentFlood(t *testing.T) {
	for _, c := range []struct {
		name, anonymous, operator string
		away                      time.Duration // before a reconnect
		pause                     time.Duration // between the words of the operator
	}{
		{"the same address", "127.0.0.1", "127.0.0.1", 0, 80 * time.Millisecond},
		{"another address", "127.0.0.1", "127.0.0.2", 0, 250 * time.Millisecond},
		{"share of one address", "192.0.2.1", "192.0.2.2", 100 * time.Millisecond, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			flood(t, 300, func(int) string { return c.anonymous }, c.away, func(l *connections, b *backlog) {
				for range 5 {
					began := time.Now()
					conn := b.connect(c.operator)
					_, err := io.WriteString(conn, "hello") // it is read once the connection is accepted
					waited := time.Since(began)
					for range 2 {
						time.Sleep(c.pause)
						if err == nil {
							_, err = io.WriteString(conn, "more")
						}
					}
					if err == nil {
						_, err = io.WriteString(conn, "token")
					}
					answer := make([]byte, 7)
					if err == nil {
						_, err = io.ReadFull(conn, answer)
					}
					if err != nil || string(answer) != "welcome" || waited > 1100*time.Millisecond {
						t.Errorf("%q, %v, after %v", answer, err, waited)
					}
					_ = conn.Close()
				}
			})
		})
	}
}

// TestFloodOfManyAddresses: when each anonymous client has its own address, none is evicted before it had time to send.
func TestFloodOfManyAddresses(t *testing.T) {
	server := func(i int) string { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String() }
	flood(t, 200, server, 0, func(l *connections, b *backlog) {
		conn := b.connect("198.51.100.1")
		_, err := io.WriteString(conn, "hello")
		began := time.Now()
		_, _ = conn.Read(make([]byte, 1)) // until it is closed
		if had := time.Since(began); err != nil || had < anonymousLeast {
			t.Errorf("%v, after %v", err, had)
		}
	})
}

// TestAddressShareKeepsHandshakes: beyond the share of its address a new connection is closed, unless an anonymous one
// there had its time: it was answered, or was silent.
func TestAddressShareKeepsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 32})
		connect := func() *connection {
			server, _ := net.Pipe()
			c, wait := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}})
			if wait > 0 {
				t.Errorf("it holds up others for %v", wait)
			}
			return c
		}
		var all []*connection
		for range 8 {
			all = append(all, connect())
		}
		if connect() != nil {
			t.Error("one that had just come was cut")
		}
		all[5].setState(http.StateActive)
		all[5].setState(http.StateIdle)
		if c := connect(); c == nil || l.from[c.address] != 8 {
			t.Error("one that was answered stays")
		}
		if _, in := l.all[all[5]]; in {
			t.Error("another one went for it")
		}
		time.Sleep(anonymousSilence)
		if connect() == nil {
			t.Error("those that say nothing stay")
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestFreePlaceIsTakenAtOnce: a waiting connection gets a place as soon as another one ends.
func TestFreePlaceIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{waiting: make(chan net.Conn, 8)}
		l := newConnections(b, ServeOptions{MaxConnections: 2})
		accept := func() *connection {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return c.(*connection)
		}
		var clients []net.Conn
		for i := range 3 {
			clients = append(clients, b.connect(fmt.Sprintf("192.0.2.%d", i)))
		}
		first, second := accept(), accept()
		began := time.Now()
		time.AfterFunc(7*time.Millisecond, func() { _ = second.Close() })
		third := accept()
		if took := time.Since(began); took != 7*time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
		for _, c := range []io.Closer{first, third, clients[0], clients[1], clients[2]} {
			_ = c.Close()
		}
	})
}
