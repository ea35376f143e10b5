package mistakes

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// link is a way to a server that can be cut. On one to ZooKeeper, before is called with each request before that goes on.
type link struct {
	addr   string
	before func(request []byte)

	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func newLink(t *testing.T, server string, before func(request []byte)) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: listener.Addr().String(), before: before}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			l.admit(client, behind)
			pumps.Go(func() { defer client.Close(); _, _ = io.Copy(client, behind) })
			pumps.Go(func() { defer behind.Close(); l.requests(behind, client) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); l.cut(); pumps.Wait() })
	return l
}

func (l *link) admit(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	if l.off {
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// cut ends all connections, and every later one.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) requests(to io.Writer, from io.Reader) {
	if l.before == nil {
		_, _ = io.Copy(to, from)
		return
	}
	for first := true; ; first = false {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if !first { // that is for a session
			l.before(body)
		}
		if _, err := to.Write(append(head, body...)); err != nil {
			return
		}
	}
}
