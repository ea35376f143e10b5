package zklock

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// passwords are those of the sessions that began behind a cut: session id -> []byte.
var passwords sync.Map

// cut is a way to a server that can be cut.
type cut struct {
	addr   string
	server string // behind it

	mu       sync.Mutex
	discards bool                // what the server answers is thrown away, and then the connection
	held     func(opcode uint32) // called before a request goes on; nil: nothing
	amend    func(answer []byte) // called before answers go on; nil: nothing
	dead     bool                // no connection is accepted
	conns    []net.Conn
}

func newCut(t *testing.T, server string) *cut {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{addr: l.Addr().String(), server: server}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil || !c.admit(client, behind) {
				_ = client.Close()
				continue
			}
			pumps.Go(func() { c.pump(behind, client, false) })
			pumps.Go(func() { c.pump(client, behind, true) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.break_(true); pumps.Wait() })
	return c
}

func (c *cut) admit(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	c.conns = append(c.conns, conns...)
	return true
}

func (c *cut) pump(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	var head []byte // the server's first answer
	for {
		n, err := from.Read(buf)
		if lack := 41 - len(head); answers && lack > 0 {
			if head = append(head, buf[:min(n, lack)]...); len(head) == 41 {
				passwords.Store(int64(binary.BigEndian.Uint64(head[12:])), head[24:40])
			}
		}
		c.mu.Lock()
		discards, amend := c.discards && answers && n > 0, c.amend
		c.mu.Unlock()
		if answers && amend != nil {
			amend(buf[:n])
		}
		if discards || err != nil {
			return
		}
		if !answers {
			c.requests(buf[:n])
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// requests tells held of those in b. Each begins with its length, its number and the opcode, of four
// bytes each; requests in pieces are not read.
func (c *cut) requests(b []byte) {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	for held != nil && len(b) >= 12 {
		held(binary.BigEndian.Uint32(b[8:]))
		b = b[min(len(b), 4+int(binary.BigEndian.Uint32(b))):]
	}
}

// hold has each request wait for what held does.
func (c *cut) hold(held func(opcode uint32)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
}

// change has each part of what the server answers wait for what amend does to it.
func (c *cut) change(amend func(answer []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.amend = amend
}

func (c *cut) set(discards, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discards, c.dead = discards, dead
}

// break_ cuts all connections; no new ones are accepted if dead.
func (c *cut) break_(dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = dead
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// operator is a plain client.
func operator(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}
