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

// backlog is a listener with connections that wait their turn.
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

// come queues a connection, and returns the client's end.
func (b *backlog) come(from string) net.Conn {
	here, there := net.Pipe()
	b.waiting <- pretendedConn{here, &net.TCPAddr{IP: net.ParseIP(from)}}
	return there
}

// flood is a server of 32 connections for which many strangers queue who say nothing and come again when they are closed.
// here(i) is where the i-th comes from, and pause how long it stays away.
func flood(t *testing.T, strangers int, here func(int) string, pause time.Duration, operator func(l *connections, b *backlog)) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{waiting: make(chan net.Conn, 2*strangers)}
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
		for i := range strangers {
			crowd.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					conn := b.come(here(i))
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

// TestAFloodOfSilence: while 300 strangers of one address say nothing and come again at once when they are closed, who has a
// token is let in within about a second, from there and from elsewhere, also where each of its words takes a while: no
// stranger has the place of one that still speaks.
func TestAFloodOfSilence(t *testing.T) {
	for _, c := range []struct {
		name, strangers, operator string
		away                      time.Duration // that strangers stay
		pause                     time.Duration // between the words of the operator
	}{
		{"the same address", "127.0.0.1", "127.0.0.1", 0, 80 * time.Millisecond},
		{"another address", "127.0.0.1", "127.0.0.2", 0, 250 * time.Millisecond},
		{"a share is for strangers", "192.0.2.1", "192.0.2.2", 100 * time.Millisecond, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			flood(t, 300, func(int) string { return c.strangers }, c.away, func(l *connections, b *backlog) {
				for range 5 {
					began := time.Now()
					conn := b.come(c.operator)
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

// TestACrowdOfAddresses: where each stranger has an address of its own, none is cut before it had time to speak.
func TestACrowdOfAddresses(t *testing.T) {
	here := func(i int) string { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String() }
	flood(t, 200, here, 0, func(l *connections, b *backlog) {
		conn := b.come("198.51.100.1")
		_, err := io.WriteString(conn, "hello")
		began := time.Now()
		_, _ = conn.Read(make([]byte, 1)) // until it is closed
		if had := time.Since(began); err != nil || had < anonymousLeast {
			t.Errorf("%v, after %v", err, had)
		}
	})
}

// TestAShareCutsNoHandshake: beyond the share of its address a connection is closed, unless a stranger there has had its
// moment: it was answered, or said nothing.
func TestAShareCutsNoHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 32})
		come := func() *connection {
			here, _ := net.Pipe()
			c, wait := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}})
			if wait > 0 {
				t.Errorf("it holds up others for %v", wait)
			}
			return c
		}
		var all []*connection
		for range 8 {
			all = append(all, come())
		}
		if come() != nil {
			t.Error("one that had just come was cut")
		}
		all[5].turned(http.StateActive)
		all[5].turned(http.StateIdle)
		if c := come(); c == nil || l.from[c.address] != 8 {
			t.Error("one that was answered stays")
		}
		if _, in := l.all[all[5]]; in {
			t.Error("another one went for it")
		}
		time.Sleep(anonymousSilence)
		if come() == nil {
			t.Error("those that say nothing stay")
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestAFreePlaceIsTakenAtOnce: who waits for a place has one as soon as another leaves.
func TestAFreePlaceIsTakenAtOnce(t *testing.T) {
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
			clients = append(clients, b.come(fmt.Sprintf("192.0.2.%d", i)))
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
